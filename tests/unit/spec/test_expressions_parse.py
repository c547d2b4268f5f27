"""Filter text: what it parses to, how it prints back, and what its errors say."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timezone
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidExpression
from headwater.spec.expressions import (
    And,
    Column,
    Comparison,
    Contains,
    EndsWith,
    Expression,
    FalseValue,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    TrueValue,
    col,
    columns,
    parse,
    to_expression,
)

X = Column(("x",))


def value_of(text: str) -> object:
    expression = parse(f"x = {text}")
    assert isinstance(expression, Comparison)
    assert isinstance(expression.right, Literal)
    return expression.right.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("5L", 5),
        ("7s", 7),
        ("7Y", 7),
        ("2.5", Decimal("2.5")),
        (".5", Decimal("0.5")),
        ("2.", Decimal("2")),
        ("2BD", Decimal("2")),
        ("1e3", 1000.0),
        ("-2.5D", -2.5),
        ("0.1F", 0.10000000149011612),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ('"say ""hi"""', 'say "hi"'),
        (r"'a\nb\\c'", "a\nb\\c"),
        (r"'10\%'", "10\\%"),
        (r"'\u00e9\101'", "éA"),
        ("TRUE", True),
        ("false", False),
        ("null", None),
        ("DATE '2024-1-2'", date(2024, 1, 2)),
        ("date'2024-01-02'", date(2024, 1, 2)),
        ("TIMESTAMP '2024-01-02 03:04:05.123456'", datetime(2024, 1, 2, 3, 4, 5, 123456, timezone.utc)),
        ("TIMESTAMP '2024-01-02T03:04:05+02:00'", datetime(2024, 1, 2, 1, 4, 5, tzinfo=timezone.utc)),
        ("TIMESTAMP '2024-07-01 12:00:00 Europe/Paris'", datetime(2024, 7, 1, 10, tzinfo=timezone.utc)),
        ("TIMESTAMP_NTZ '2024-01-02 03:04:05'", datetime(2024, 1, 2, 3, 4, 5)),
        ("TIME '10:30'", time(10, 30)),
        ("X'1Fa0'", b"\x1f\xa0"),
        ("X'F'", b"\x0f"),
        ("CAST('5' AS INT)", 5),
        ("CAST('1.239' AS DECIMAL(10, 2))", Decimal("1.24")),
        ("CAST(NULL AS STRING)", None),
        ("CAST('2024-01-02' AS date)", date(2024, 1, 2)),
        ("double('2.5')", 2.5),
    ],
)
def test_literal_has_value_and_type_that_spark_gives_it(text: str, value: object) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


def test_nan_is_written_as_cast() -> None:
    found = value_of("CAST('NaN' AS DOUBLE)")
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("x == 1", Comparison("=", X, Literal(1))),
        ("x <> 1", Comparison("!=", X, Literal(1))),
        ("5 < x", Comparison(">", X, Literal(5))),
        ("x <=> NULL", Comparison("<=>", X, Literal(None))),
        ("x < y", Comparison("<", X, Column(("y",)))),
        ("(x) > (5)", Comparison(">", X, Literal(5))),
        ("a.b.`c d`.e = 1", Comparison("=", Column(("a", "b", "c d", "e")), Literal(1))),
        ("`a.b` = 1", Comparison("=", Column(("a.b",)), Literal(1))),
        ("date = 1", Comparison("=", Column(("date",)), Literal(1))),
        ("x IS NULL", IsNull(X)),
        ("x is not null", Not(IsNull(X))),
        ("x IS NOT NAN", Not(IsNaN(X))),
        ("isnan(x) AND isnull(x)", And((IsNaN(X), IsNull(X)))),
        ("x NOT IN (1, NULL)", Not(In(X, (Literal(1), Literal(None))))),
        ("x IN (1, y)", Or((Comparison("=", X, Literal(1)), Comparison("=", X, Column(("y",)))))),
        ("x BETWEEN 1 AND 2", And((Comparison(">=", X, Literal(1)), Comparison("<=", X, Literal(2))))),
        ("x NOT LIKE 'a%'", Not(Like(X, "a%"))),
        ("x LIKE '10!%' ESCAPE '!'", Like(X, "10!%", "!")),
        (
            "startswith(x, 'a') OR endsWith(x, 'b') OR CONTAINS(x, 'c')",
            Or((StartsWith(X, "a"), EndsWith(X, "b"), Contains(X, "c"))),
        ),
        ("x", X),
        ("NOT x", Not(X)),
        ("! x", Not(X)),
        ("TRUE AND NULL", And((TrueValue(), Literal(None)))),
        ("1 = 1", Comparison("=", Literal(1), Literal(1))),
        ("x OR y AND z", Or((X, And((Column(("y",)), Column(("z",))))))),
        ("NOT x = 1 AND y", And((Not(Comparison("=", X, Literal(1))), Column(("y",))))),
    ],
)
def test_text_parses_to_tree(text: str, tree: Expression) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("", 1, "expected a column"),
        ("x >", 4, "expected a column, a value"),
        ("x = 1 y", 7, "expected AND, OR or the end of the filter, found y"),
        ("x = 'abc", 5, "no closing quote"),
        ("x # 1", 3, "unexpected character '#'"),
        ("x IN (1", 8, "expected ',' or ')'"),
        ("x = DATE 'soon'", 10, "'soon' is no DATE value"),
        ("x = CAST('a' AS INT)", 10, "'a' is no INT value"),
        ("reverse(x) = 'A'", 1, "no function 'reverse'"),
        ("x = 1abc", 5, "is no number"),
        ("x AND 5", 7, "the value 5 is no condition"),
        ("in = 5", 1, "back quotes"),
        ("(x = 1) = 2", 1, "a condition cannot be compared"),
        ("x IS 5", 6, "expected NULL, NAN or NOT"),
        ("x BETWEEN 1, 2", 12, "expected AND"),
        ("x = 1e999", 5, "larger than a DOUBLE"),
    ],
)
def test_error_says_what_was_expected_and_points_at_it(text: str, at: int, words: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse(text)
    message, line, caret = str(caught.value).split("\n")
    assert f"at character {at}:" in message
    assert words in message
    assert line == "  " + text
    assert caret.index("^") - 2 == at - 1


def test_error_in_long_filter_shows_only_its_surroundings() -> None:
    text = "x = 1 AND " * 1000 + "x = # AND " + "x = 1 AND " * 1000
    with pytest.raises(InvalidExpression) as caught:
        parse(text)
    _, line, caret = str(caught.value).split("\n")
    assert len(line) < 130
    assert line[caret.index("^")] == "#"


@pytest.mark.parametrize("text", ["(" * 5000, "(" * 5000 + "x" + ")" * 5000, "NOT " * 5000 + "x", "NOT (" * 101 + "x"])
def test_deep_nesting_is_an_error_not_a_crash(text: str) -> None:
    with pytest.raises(InvalidExpression):
        parse(text)


def test_nesting_up_to_the_limit_parses_and_prints() -> None:
    text = "NOT (x OR " * 49 + "x" + ")" * 49
    assert str(parse(text)) == text
    tree: Expression = X
    for _ in range(50):
        tree = ~(tree | X)
    with pytest.raises(InvalidExpression, match="levels deep"):
        _ = ~tree


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_chain_of_ten_thousand_terms_parses_and_prints(word: str) -> None:
    text = f" {word} ".join(f"x = {number}" for number in range(10_000))
    tree = parse(text)
    assert str(tree) == text
    assert columns(tree) == {"x"}


def test_builder_writes_the_same_trees_as_text() -> None:
    built = (col("fare") > 10) & (col("a.b") == "sf") & ~col("tip").is_null() | col("x").is_in([1, 2]) & col("ok")
    assert built == parse("fare > 10 AND a.b = 'sf' AND NOT tip IS NULL OR x IN (1, 2) AND ok")
    assert (col("x").between(1, 2) & col("y").like("a%")) == parse("x BETWEEN 1 AND 2 AND y LIKE 'a%'")
    assert (col("x") != col("y")) == parse("x != y")
    assert (col("x").starts_with("a") | col("x").ends_with("b") | col("x").contains("c")) == parse(
        "startswith(x, 'a') OR endswith(x, 'b') OR contains(x, 'c')"
    )


def test_list_of_filters_must_hold_as_a_whole() -> None:
    assert to_expression(["x = 1", col("y") > 2]) == parse("x = 1 AND y > 2")
    assert to_expression([]) == TrueValue()
    assert to_expression(None) == TrueValue()
    assert to_expression(col("x")) == X


@pytest.mark.parametrize(
    "misuse", [lambda: 1 < col("x") < 3, lambda: col("x") and col("y"), lambda: not parse("x = 1")]
)
def test_python_truth_of_an_expression_is_refused(misuse: object) -> None:
    with pytest.raises(InvalidExpression, match="no truth value"):
        misuse()  # type: ignore[operator]


def test_foreign_values_are_refused_as_literals() -> None:
    with pytest.raises(InvalidExpression, match="cannot be a literal"):
        col("x") == object()  # noqa: B015
    with pytest.raises(InvalidExpression, match="list of values"):
        col("x").is_in("abc")


names = st.one_of(
    st.sampled_from(["x", "y", "In", "date", "é", "a b", "a`b", "a.b", "1x"]), st.text(min_size=1, max_size=4)
)
column_nodes = st.lists(names, min_size=1, max_size=3).map(lambda parts: Column(tuple(parts)))
literal_nodes = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(timezone.utc)),
    st.times(),
).map(Literal)
leaves = st.one_of(
    st.builds(
        Comparison,
        st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]),
        column_nodes,
        literal_nodes | column_nodes,
    ),
    st.builds(In, column_nodes, st.lists(literal_nodes, max_size=4).map(tuple)),
    st.builds(IsNull, column_nodes),
    st.builds(IsNaN, column_nodes),
    st.builds(StartsWith, column_nodes, st.text(max_size=5)),
    st.builds(EndsWith, column_nodes, st.text(max_size=5)),
    st.builds(Contains, column_nodes, st.text(max_size=5)),
    st.builds(Like, column_nodes, st.text(max_size=5), st.characters(codec="utf-8")),
    column_nodes,
    st.sampled_from([TrueValue(), FalseValue(), Literal(None)]),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(trees)
def test_printed_tree_parses_to_the_same_tree(tree: Expression) -> None:
    assert parse(str(tree)) == tree


words = """x y `a` . , ( ) = == <=> < >= ! NOT AND OR IN IS NULL NAN LIKE ESCAPE BETWEEN CAST AS INT DECIMAL DATE
TIMESTAMP X isnan startswith 'a' '2024-01-02' "b" 1 -2 2.5 1e9 9BD 5Y ' \\ ` # é \0"""
fragments = st.lists(st.sampled_from(words.split()) | st.text(max_size=3), max_size=25).map(" ".join)


@pytest.mark.fuzz
@settings(max_examples=400, deadline=None)
@given(st.one_of(fragments, st.text(max_size=60)))
@example("x = 1E400BD")
@example("x = " + "9" * 5000)
@example("x = '\\UFFFFFFFF'")
@example("x = '\\ud800'")
@example("CAST('1' AS DECIMAL(99999999999, 2)) = x")
@example("x = TIMESTAMP '9999-12-31 23:59:59-18:00'")
@example("x = TIMESTAMP '2024-01-01 00:00:00 ../etc/passwd'")
@example("x = 1E+999999999BD")
@example("x = CAST('1E+999999999' AS DECIMAL(38, 2))")
@example("x = CAST(1E400BD AS DOUBLE)")
def test_any_text_parses_or_is_an_invalid_expression(text: str) -> None:
    try:
        parse(text)
    except InvalidExpression:
        pass
    else:
        parse(str(parse(text)))
