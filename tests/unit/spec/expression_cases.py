"""Random trees and tables for the expression tests, and a slow, obvious reference that evaluates row by row."""

from __future__ import annotations

import math
import random
import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

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
)

UTC = timezone.utc
NAN = math.nan
INF = math.inf

SCHEMA = pa.schema(
    [
        ("tiny", pa.int8()),
        ("big", pa.int64()),
        ("single", pa.float32()),
        ("real", pa.float64()),
        ("amount", pa.decimal128(10, 3)),
        ("long_amount", pa.decimal128(38, 18)),
        ("name", pa.string()),
        ("city", pa.dictionary(pa.int32(), pa.string())),
        ("view", pa.string_view()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("at_ms", pa.timestamp("ms")),
        ("at_ns", pa.timestamp("ns")),
        ("raw", pa.binary()),
        ("code", pa.binary(2)),
        ("rider", pa.struct([("age", pa.int32()), ("name", pa.large_string())])),
    ]
)

_TEXTS = ["", "a", "ab", "abc", "b", "ba%", "5", "5.5", "-1", "é", "\U0001f600z", "a\nb", "NaN", "2024-01-02"]
_MOMENTS = [
    datetime(2024, 1, 2),
    datetime(2024, 1, 2, 0, 0, 0, 1000),
    datetime(2024, 1, 3),
    datetime(1969, 12, 31, 23, 59, 59, 999000),
    datetime(2024, 1, 2, 12),
]
_DAYS = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3), date(1969, 12, 31)]

VALUES: dict[str, list[Any]] = {
    "tiny": [-128, -1, 0, 2, 3, 127],
    "big": [-(2**63), -1, 0, 2, 3, 2**53, 2**53 + 1, 2**63 - 1],
    "single": [-INF, -1.5, -0.0, 0.0, 0.10000000149011612, 2.5, INF, NAN],
    "real": [-INF, -1.5, -0.0, 0.0, 0.1, 2.0, 2.5, INF, NAN],
    "amount": [Decimal(text) for text in ("-1.000", "0.000", "1.001", "1.002", "2.500", "9999999.999")],
    "long_amount": [Decimal(text) for text in ("-1", "0", "1.001", "2.5", "1.000000000000000001")],
    "name": _TEXTS,
    "city": _TEXTS,
    "view": _TEXTS,
    "ok": [True, False],
    "day": _DAYS,
    "at": [moment.replace(tzinfo=UTC) for moment in _MOMENTS],
    "at_ms": _MOMENTS,
    "at_ns": _MOMENTS,
    "raw": [b"", b"a", b"ab", b"\xff"],
    "code": [b"ab", b"\x00\x00", b"\xff\xff"],
    "age": [-1, 0, 2, 3, 40],
}

NUMBERS: list[Any] = [-129, -1, 0, 2, 3, 127, 128, 300, 2**53, 2**63, -(2**70)]
NUMBERS += [Decimal(text) for text in ("-1.5", "0", "0.1", "1.001", "1.0015", "2.0", "2.5", "1E+20")]
NUMBERS += [-INF, -1.5, -0.0, 0.0, 0.1, 0.10000000149011612, 2.0, 2.5, 1e300, INF, NAN]
REAL_TEXTS = ["2.5", " -1 ", "0", "1.001", "NaN"]
MOMENTS: list[Any] = [*_MOMENTS, *[moment.replace(tzinfo=UTC) for moment in _MOMENTS], datetime(2024, 1, 2, 0, 0, 0, 1)]
MOMENT_TEXTS = ["2024-01-02", "2024-01-02 00:00:00.001", "2024-01-02T14:00:00+02:00", "1969-12-31 23:59:59.999"]

LITERALS: dict[str, list[Any]] = {
    "tiny": [*NUMBERS, "2", "300", " -1 "],
    "big": [*NUMBERS, "2", "-1"],
    "single": NUMBERS + REAL_TEXTS,
    "real": NUMBERS + REAL_TEXTS,
    "amount": NUMBERS + REAL_TEXTS,
    "long_amount": NUMBERS + REAL_TEXTS,
    "name": [*_TEXTS, 5, Decimal("5.5"), -1.0, NAN, b"ab", date(2024, 1, 2), True],
    "city": [*_TEXTS, 5],
    "view": [*_TEXTS, 5],
    "ok": [True, False, "true", "N"],
    "day": [*_DAYS, *MOMENTS, "2024-01-02", "2024-1-3"],
    "at": [*_DAYS, *MOMENTS, *MOMENT_TEXTS],
    "at_ms": [*_DAYS, *MOMENTS, *MOMENT_TEXTS],
    "at_ns": [*_DAYS, *MOMENTS, *MOMENT_TEXTS, date(1, 1, 1), date(9999, 1, 1)],
    "raw": [b"", b"a", b"ab", "ab", b"\xff"],
    "code": [b"ab", b"a", "ab", b"\xff\xff\xff"],
    "age": [*NUMBERS, "2"],
}
PAIRS = [
    ("tiny", "big"),
    ("big", "amount"),
    ("real", "big"),
    ("single", "real"),
    ("real", "real"),
    ("amount", "long_amount"),
    ("day", "at"),
    ("at", "at_ms"),
    ("at", "at_ns"),
    ("day", "at_ns"),
    ("name", "city"),
    ("name", "view"),
    ("name", "big"),
    ("name", "real"),
    ("raw", "code"),
    ("ok", "ok"),
    ("age", "tiny"),
]
PATTERNS = ["a%", "%b", "%b%", "a_", "a%b", "_", "ba!%", "%", "", "a__%"]
TEXT_COLUMNS = ("name", "city", "view", "day", "big")


def column(name: str) -> Column:
    return Column(("rider", "age") if name == "age" else (name,))


def random_table(seed: int, rows: int, *, schema: pa.Schema = SCHEMA) -> pa.Table:
    """A few rows of values that the literals often hit, with NULLs, NULL structs, and columns of one value."""
    source = random.Random(seed)

    def values(name: str) -> list[Any]:
        pool = source.sample(VALUES[name], source.randint(1, min(3, len(VALUES[name]))))
        nulls = source.choice([0, 0, 0.3, 1])
        return [None if source.random() < nulls else source.choice(pool) for _ in range(rows)]

    arrays = []
    for field in schema:
        if field.name == "rider":
            people = [{"age": age, "name": "x"} for age in values("age")]
            arrays.append(pa.array([None if source.random() < 0.2 else person for person in people], field.type))
        else:
            arrays.append(pa.array(values(field.name), field.type))
    return pa.table(arrays, schema=schema)


operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"])


@st.composite
def comparisons(draw: st.DrawFn, names: list[str]) -> Expression:
    name = draw(st.sampled_from(names))
    return Comparison(draw(operators), column(name), Literal(draw(st.sampled_from([*LITERALS[name], None]))))


@st.composite
def memberships(draw: st.DrawFn, names: list[str]) -> Expression:
    name = draw(st.sampled_from(names))
    values = draw(st.lists(st.sampled_from([*LITERALS[name], None]), max_size=4))
    return In(column(name), tuple(Literal(value) for value in values))


def leaves(names: list[str]) -> st.SearchStrategy[Expression]:
    texts = st.sampled_from([name for name in TEXT_COLUMNS if name in names] or ["name"]).map(column)
    pieces = st.sampled_from(["", "a", "b", "ab", "é", "-0", "2", "\U0001f600"])
    pairs = [pair for pair in PAIRS if pair[0] in names and pair[1] in names]
    strategies = [
        comparisons(names),
        comparisons(names),
        memberships(names),
        st.sampled_from(names).map(lambda name: IsNull(column(name))),
        st.builds(StartsWith, texts, pieces),
        st.builds(EndsWith, texts, pieces),
        st.builds(Contains, texts, pieces),
        st.builds(
            Like, texts, st.sampled_from(["a%", "%b", "%b%", "a_", "a%b", "_", "ba!%", "%", "", "a__%"]), st.just("!")
        ),
        st.sampled_from([TrueValue(), FalseValue(), Literal(None), Comparison("=", Literal(1), Literal("1"))]),
    ]
    floats = [name for name in ("real", "single", "name", "big") if name in names]
    if floats:
        strategies.append(st.sampled_from(floats).map(lambda name: IsNaN(column(name))))
    if "ok" in names:
        strategies.append(st.just(column("ok")))
    if pairs:
        strategies.append(
            st.builds(
                lambda op, pair: Comparison(op, column(pair[0]), column(pair[1])), operators, st.sampled_from(pairs)
            )
        )
    return st.one_of(strategies)


def trees(names: list[str] | None = None) -> st.SearchStrategy[Expression]:
    return st.recursive(
        leaves(names or list(VALUES)),
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
        ),
        max_leaves=6,
    )


# -- the reference


def expected(tree: Expression, row: dict[str, Any]) -> bool | None:
    """What the tree is for a row: True, False or None for unknown."""
    if isinstance(tree, TrueValue | FalseValue):
        return isinstance(tree, TrueValue)
    if isinstance(tree, Literal):
        return None
    if isinstance(tree, Column):
        value: bool | None = _value(tree, row)
        return value
    if isinstance(tree, Not):
        inner = expected(tree.operand, row)
        return None if inner is None else not inner
    if isinstance(tree, And | Or):
        found = [expected(operand, row) for operand in tree.operands]
        decisive = isinstance(tree, Or)
        return decisive if decisive in found else None if None in found else not decisive
    if isinstance(tree, Comparison):
        return _compare(tree.op, _value(tree.left, row), _value(tree.right, row), tree.left, tree.right)
    if isinstance(tree, In):
        value = _value(tree.column, row)
        found = [_compare("=", value, literal.value, tree.column, literal) for literal in tree.values]
        return True if True in found else None if None in found else False
    assert isinstance(tree, IsNull | IsNaN | StartsWith | EndsWith | Contains | Like)
    value = _value(tree.column, row)
    if isinstance(tree, IsNull):
        return value is None
    if isinstance(tree, IsNaN):
        number = _read_double(value) if isinstance(value, str) else value
        return isinstance(number, float) and math.isnan(number)
    if value is None:
        return None
    text = str(value)
    if isinstance(tree, StartsWith):
        return text.startswith(tree.text)
    if isinstance(tree, EndsWith):
        return text.endswith(tree.text)
    if isinstance(tree, Contains):
        return tree.text in text
    pattern = re.sub(r"!(.)|(%)|(_)|(.)", _like_piece, tree.pattern, flags=re.DOTALL)
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _like_piece(match: re.Match[str]) -> str:
    escaped, percent, underscore, other = match.groups()
    return ".*" if percent else "." if underscore else re.escape(escaped or other)


def _value(operand: Expression, row: dict[str, Any]) -> Any:
    if isinstance(operand, Literal):
        return operand.value
    assert isinstance(operand, Column)
    value: Any = row
    for part in operand.path:
        value = None if value is None else value[part]
    return value


def _compare(op: str, left: Any, right: Any, left_node: Expression, right_node: Expression) -> bool | None:
    if isinstance(left, str) and right is None and isinstance(right_node, Column):
        # The column of numbers makes Spark cast the text whether this row has a number or not.
        samples = {"big": 0, "real": 0.0}
        sample = samples.get(right_node.path[-1])
        left = left if sample is None else _against_text(sample, left, False)[1]
    if left is not None and right is not None:
        left, right = _aligned(left, right, isinstance(left_node, Literal), isinstance(right_node, Literal))
    if op == "<=>":
        return (left is None and right is None) or (left is not None and right is not None and _order(left, right) == 0)
    if left is None or right is None:
        return None
    order = _order(left, right)
    return {"=": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[op]


def _order(left: Any, right: Any) -> int:
    left_nan = isinstance(left, float) and math.isnan(left)
    right_nan = isinstance(right, float) and math.isnan(right)
    if left_nan or right_nan:
        return int(left_nan) - int(right_nan)
    return (left > right) - (left < right)


def _aligned(left: Any, right: Any, left_fixed: bool, right_fixed: bool) -> tuple[Any, Any]:
    """Both sides as values that Python compares, cast as Spark casts them."""
    if isinstance(left, str) and not isinstance(right, str):
        right, left = _aligned(right, left, right_fixed, left_fixed)
        return left, right
    if isinstance(right, str) and not isinstance(left, str):
        return _against_text(left, right, right_fixed)
    if isinstance(left, bool | str | bytes):
        return left, right
    if isinstance(left, date):
        return _micros(left), _micros(right)
    if isinstance(left, float) or isinstance(right, float):
        return float(left), float(right)
    return Fraction(left), Fraction(right)


def _against_text(value: Any, text: str, text_is_literal: bool) -> tuple[Any, Any]:
    if isinstance(value, bool):
        return value, {"true": True, "y": True, "1": True, "n": False, "0": False}.get(text.strip().lower())
    if isinstance(value, bytes):
        return value, text.encode()
    if isinstance(value, datetime):
        return _micros(value), _read_moment(text)
    if isinstance(value, date):
        match = re.fullmatch(r"\s*(\d{4})-(\d+)-(\d+)(?:[ T].*)?", text)
        return value, date(*(int(part) for part in match.groups())) if match else None
    if isinstance(value, int):
        match = re.fullmatch(r"\s*([+-]?\d+)(\.\d*)?\s*", text)
        return value, int(match.group(1)) if match else None
    number = _read_double(text)
    return float(value), number


def _read_double(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"\s*([+-]?\d+(\.\d*)?|nan)\s*", text, re.IGNORECASE):
        return None
    return float(text)


def _read_moment(text: str) -> Fraction | None:
    try:
        return _micros(datetime.fromisoformat(text))
    except ValueError:
        return None


def _micros(value: date) -> Fraction:
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return Fraction((aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
