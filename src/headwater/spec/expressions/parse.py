"""Filter text in Spark SQL's predicate syntax, parsed into a tree."""

from __future__ import annotations

from headwater.errors import InvalidExpression
from headwater.spec.expressions.constants import CONSTRUCTORS, cast_constant, number_constant, type_of_name
from headwater.spec.expressions.functions import FUNCTIONS
from headwater.spec.expressions.lexer import Token, TokenKind, syntax_error, tokenize
from headwater.spec.expressions.nodes import (
    FALSE,
    MAX_DEPTH,
    MIRRORED,
    TRUE,
    Column,
    Comparison,
    Contains,
    EndsWith,
    Expression,
    Function,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    NestedTooDeep,
    Not,
    StartsWith,
    Value,
    conjunction,
    disjunction,
)
from headwater.spec.expressions.printing import RESERVED

_OPERATORS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_TEXT_FUNCTIONS = {"STARTSWITH": StartsWith, "ENDSWITH": EndsWith, "CONTAINS": Contains}
_FUNCTIONS = ("isnan", "isnull", "isnotnull", "startswith", "endswith", "contains", "cast")


def parse(text: str) -> Expression:
    """The tree of a filter.

    >>> parse("5 < fare")
    Comparison(op='>', left=Column(path=('fare',)), right=Literal(value=5))
    >>> print(parse("city in ('sf', 'nyc') and not (rider.age between 18 and 30)"))
    city IN ('sf', 'nyc') AND NOT (rider.age >= 18 AND rider.age <= 30)
    """
    return _Parser(text).parse()


def parse_column(text: str) -> Column:
    """A column's path from its dotted name, parts in back quotes where they are no plain word.

    >>> parse_column("rider.`home town`").path
    ('rider', 'home town')
    """
    return _Parser(text).parse_column()


def compare(op: str, left: Column | Literal, right: Column | Literal) -> Comparison:
    """A comparison with the column on the left when only one side is a column.

    >>> print(compare("<", Literal(5), Column(("fare",))))
    fare > 5
    """
    if isinstance(left, Literal) and isinstance(right, Column):
        return Comparison(MIRRORED[op], right, left)
    return Comparison(op, left, right)


class _Parser:
    """Recursive descent; only parentheses recurse, and they are counted."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._position = 0
        self._nesting = 0

    def parse(self) -> Expression:
        try:
            expression = self._predicate(self._or())
        except (NestedTooDeep, RecursionError):
            raise self._error(self._current(), f"AND, OR and NOT nest more than {MAX_DEPTH} levels deep") from None
        if self._current().kind is not TokenKind.END:
            raise self._expected("AND, OR or the end of the filter")
        return expression

    def parse_column(self) -> Column:
        if self._current().kind not in (TokenKind.WORD, TokenKind.QUOTED_NAME):
            raise self._expected("a column name")
        column = self._path(self._take())
        if self._current().kind is not TokenKind.END:
            raise self._expected("'.' or the end of the column name")
        return column

    # -- precedence: OR, AND, NOT, comparison, operand

    def _or(self) -> Expression:
        first_at = self._current()
        operands = [self._and()]
        while self._accept("OR"):
            operands[-1] = self._predicate(operands[-1], first_at)
            first_at = self._current()
            operands.append(self._and())
        if len(operands) == 1:
            return operands[0]
        operands[-1] = self._predicate(operands[-1], first_at)
        return disjunction(operands)

    def _and(self) -> Expression:
        first_at = self._current()
        operands = [self._not()]
        while self._accept("AND"):
            operands[-1] = self._predicate(operands[-1], first_at)
            first_at = self._current()
            operands.append(self._not())
        if len(operands) == 1:
            return operands[0]
        operands[-1] = self._predicate(operands[-1], first_at)
        return conjunction(operands)

    def _not(self) -> Expression:
        negations = 0
        while self._accept("NOT") or self._accept("!"):
            negations += 1
        first = self._current()
        expression = self._comparison()
        if negations:
            expression = self._predicate(expression, first)
        for _ in range(negations):
            expression = Not(expression)
        return expression

    def _comparison(self) -> Expression:
        first = self._current()
        left = self._operand()
        operator = _OPERATORS.get(self._current().text) if self._current().kind is TokenKind.SYMBOL else None
        if operator is not None:
            self._take()
            second = self._current()
            right = self._operand()
            return compare(operator, self._comparable(left, first), self._comparable(right, second))
        if self._accept("IS"):
            return self._is(left, first)
        negated = False
        if self._current().upper == "NOT" and self._peek().upper in ("IN", "LIKE", "BETWEEN"):
            self._take()
            negated = True
        expression: Expression
        if self._accept("IN"):
            expression = self._in(self._column(left, first))
        elif self._accept("LIKE"):
            expression = self._like(self._column(left, first))
        elif self._accept("BETWEEN"):
            expression = self._between(self._comparable(left, first))
        else:
            return left
        return Not(expression) if negated else expression

    def _operand(self) -> Expression:
        token = self._current()
        if token.kind is TokenKind.NUMBER:
            return Literal(self._number())
        if token.kind is TokenKind.STRING:
            return Literal(self._take().text)
        if token.kind is TokenKind.SYMBOL and token.text in "+-" and self._peek().kind is TokenKind.NUMBER:
            return Literal(self._number())
        if token.kind is TokenKind.SYMBOL and token.text == "(":
            return self._parenthesis()
        if token.kind is TokenKind.QUOTED_NAME:
            return self._path(self._take())
        if token.kind is TokenKind.WORD:
            return self._word()
        raise self._expected("a column, a value, NOT or '('")

    def _parenthesis(self) -> Expression:
        opening = self._take()
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise self._error(opening, f"parentheses nest more than {MAX_DEPTH} levels deep")
        expression = self._or()
        self._expect(")")
        self._nesting -= 1
        return expression

    def _word(self) -> Expression:
        token = self._current()
        following = self._peek()
        if token.upper in ("TRUE", "FALSE"):
            self._take()
            return Literal(token.upper == "TRUE")
        if token.upper == "NULL":
            self._take()
            return Literal(None)
        if token.upper in CONSTRUCTORS and following.kind is TokenKind.STRING:
            self._take()
            return Literal(self._constructed(token, self._take()))
        if token.upper in RESERVED:
            raise self._expected("a column, a value, NOT or '(' (a column of this name needs `back quotes`)")
        if following.kind is TokenKind.SYMBOL and following.text == "(":
            return self._function()
        return self._path(self._take())

    # -- what follows an operand

    def _is(self, left: Expression, first: Token) -> Expression:
        negated = self._accept("NOT")
        column = self._column(left, first)
        expression: Expression
        if self._accept("NULL"):
            expression = IsNull(column)
        elif self._accept("NAN"):
            expression = IsNaN(column)
        else:
            raise self._expected("NULL or NAN" if negated else "NULL, NAN or NOT")
        return Not(expression) if negated else expression

    def _in(self, column: Column) -> Expression:
        self._expect("(")
        items: list[Column | Literal] = []
        while not (self._current().kind is TokenKind.SYMBOL and self._current().text == ")"):
            if items:
                self._expect(",", "',' or ')'")
            first = self._current()
            items.append(self._comparable(self._operand(), first))
        self._take()
        literals = tuple(item for item in items if isinstance(item, Literal))
        if len(literals) == len(items):
            return In(column, literals)
        return disjunction(Comparison("=", column, item) for item in items)

    def _like(self, column: Column) -> Expression:
        pattern = self._string("the pattern, a string")
        if not self._accept("ESCAPE"):
            return Like(column, pattern)
        at = self._current()
        escape = self._string("the escape character, a string")
        if len(escape) != 1:
            raise self._error(at, f"the escape is one character, not {len(escape)}")
        return Like(column, pattern, escape)

    def _between(self, value: Column | Literal) -> Expression:
        first = self._current()
        low = self._comparable(self._operand(), first)
        self._expect("AND", "AND and the upper bound")
        first = self._current()
        high = self._comparable(self._operand(), first)
        return conjunction((compare(">=", value, low), compare("<=", value, high)))

    def _function(self) -> Expression:
        name = self._take()
        if name.upper == "CAST":
            return Literal(self._cast())
        type_ = type_of_name(name.text)
        if type_ is not None:
            self._expect("(")
            at = self._current()
            value = self._literal()
            self._expect(")")
            return Literal(self._converted(at, value, type_))
        if name.text.lower() in FUNCTIONS:
            return self._function_of_column(name.text.lower())
        if name.upper not in ("ISNAN", "ISNULL", "ISNOTNULL", *_TEXT_FUNCTIONS):
            known = ", ".join((*_FUNCTIONS, *FUNCTIONS))
            raise self._error(name, f"no function {name.text!r} in filters; there are: {known}")
        self._expect("(")
        first = self._current()
        column = self._column(self._operand(), first)
        if name.upper in _TEXT_FUNCTIONS:
            self._expect(",")
            text = self._string("the text to look for, a string")
            self._expect(")")
            return _TEXT_FUNCTIONS[name.upper](column, text)
        self._expect(")")
        if name.upper == "ISNAN":
            return IsNaN(column)
        return IsNull(column) if name.upper == "ISNULL" else Not(IsNull(column))

    def _function_of_column(self, name: str) -> Expression:
        self._expect("(")
        first = self._current()
        column = self._column(self._operand(), first)
        if isinstance(column, Function):
            raise self._error(first, f"{name} takes a column, and no function of one")
        arguments: list[str | int] = []
        while not self._accept(")"):
            self._expect(",", "',' or ')'")
            at = self._current()
            value = self._literal()
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise self._error(at, f"{name} takes texts and whole numbers behind its column")
            arguments.append(value)
        return Function(column.path, name, tuple(arguments))

    # -- values

    def _cast(self) -> Value:
        self._expect("(")
        at = self._current()
        value = self._literal()
        self._expect("AS")
        name = self._current()
        type_ = type_of_name(name.text) if name.kind is TokenKind.WORD else None
        if type_ is None:
            raise self._expected("a type such as INT, DOUBLE, STRING, DATE, TIMESTAMP, DECIMAL(10, 2)")
        self._take()
        size = self._type_parameters() if self._accept("(") else ()
        self._expect(")")
        return self._converted(at, value, type_, size)

    def _type_parameters(self) -> tuple[int, ...]:
        """The numbers in a type such as DECIMAL(10, 2)."""
        numbers: list[int] = []
        while not self._accept(")"):
            if numbers:
                self._expect(",", "',' or ')'")
            if (
                self._current().kind is not TokenKind.NUMBER
                or not self._current().text.isdecimal()
                or len(self._current().text) > 9
            ):
                raise self._expected("a whole number")
            numbers.append(int(self._take().text))
        return tuple(numbers)

    def _literal(self) -> Value:
        at = self._current()
        operand = self._operand()
        if not isinstance(operand, Literal):
            raise self._error(at, "only literals can be cast in filters: expected a value")
        return operand.value

    def _converted(self, at: Token, value: Value, type_: str, size: tuple[int, ...] = ()) -> Value:
        try:
            return cast_constant(value, type_, *size[:2])
        except InvalidExpression as error:
            raise self._error(at, str(error)) from None

    def _constructed(self, word: Token, content: Token) -> Value:
        value = CONSTRUCTORS[word.upper](content.text)
        if value is None:
            raise self._error(content, f"{content.text!r} is no {word.upper} value")
        return value

    def _number(self) -> Value:
        sign = self._take() if self._current().kind is TokenKind.SYMBOL else None
        token = self._take()
        try:
            return number_constant(("-" if sign is not None and sign.text == "-" else "") + token.text)
        except InvalidExpression as error:
            raise self._error(token, str(error)) from None

    def _string(self, what: str) -> str:
        if self._current().kind is not TokenKind.STRING:
            raise self._expected(what)
        return self._take().text

    def _path(self, first: Token) -> Column:
        parts = [first.text]
        while self._current().kind is TokenKind.SYMBOL and self._current().text == ".":
            self._take()
            if self._current().kind not in (TokenKind.WORD, TokenKind.QUOTED_NAME):
                raise self._expected("a field name after '.'")
            parts.append(self._take().text)
        return Column(tuple(parts))

    # -- what an operand may be

    def _predicate(self, expression: Expression, first: Token | None = None) -> Expression:
        if isinstance(expression, Literal) and expression.value is not None:
            if not isinstance(expression.value, bool):
                token = first or self._tokens[0]
                raise self._error(token, f"the value {expression} is no condition: expected a comparison")
            return TRUE if expression.value else FALSE
        return expression

    def _comparable(self, expression: Expression, first: Token) -> Column | Literal:
        if not isinstance(expression, Column | Literal):
            raise self._error(first, "a condition cannot be compared: expected a column or a value")
        return expression

    def _column(self, expression: Expression, first: Token) -> Column:
        if not isinstance(expression, Column):
            raise self._error(first, "expected a column here")
        return expression

    # -- tokens

    def _current(self) -> Token:
        return self._tokens[self._position]

    def _peek(self) -> Token:
        return self._tokens[min(self._position + 1, len(self._tokens) - 1)]

    def _take(self) -> Token:
        token = self._current()
        if token.kind is not TokenKind.END:
            self._position += 1
        return token

    def _accept(self, word: str) -> bool:
        token = self._current()
        if token.upper == word or (token.kind is TokenKind.SYMBOL and token.text == word):
            self._position += 1
            return True
        return False

    def _expect(self, word: str, what: str | None = None) -> None:
        if not self._accept(word):
            raise self._expected(what or (word if word.isalpha() else f"'{word}'"))

    def _expected(self, what: str) -> InvalidExpression:
        token = self._current()
        found = "the end" if token.kind is TokenKind.END else self._text[token.at : token.end]
        return self._error(token, f"expected {what}, found {found}")

    def _error(self, token: Token, problem: str) -> InvalidExpression:
        return syntax_error(self._text, token.at, problem)
