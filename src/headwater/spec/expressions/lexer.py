"""Filter text cut into tokens, and errors that point at the place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from headwater.errors import InvalidExpression


class TokenKind(Enum):
    """What a piece of filter text is."""

    WORD = "a word"
    QUOTED_NAME = "a quoted name"
    NUMBER = "a number"
    STRING = "a string"
    SYMBOL = "a symbol"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of the text: its kind, its text (of a string or a quoted name: the content), and where it begins."""

    kind: TokenKind
    text: str
    at: int
    end: int

    @property
    def upper(self) -> str:
        """The text in upper case when it is a bare word, else something that no keyword is."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""


_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[A-Za-z0-9_]*)
    | (?P<word>[^\W\d]\w*)
    | (?P<name>`(?:[^`]|``)+`)
    | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<symbol><=>|<=|>=|<>|!=|==|[=<>(),.!+-])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    "number": TokenKind.NUMBER,
    "word": TokenKind.WORD,
    "name": TokenKind.QUOTED_NAME,
    "string": TokenKind.STRING,
    "symbol": TokenKind.SYMBOL,
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_CONTEXT = 60


def tokenize(text: str) -> list[Token]:
    """All tokens of the text, the last of kind END.

    >>> [token.text for token in tokenize("fare >= 10")]
    ['fare', '>=', '10', '']
    """
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise syntax_error(text, at, _unreadable(text[at]))
        group = match.lastgroup or ""
        if group != "space":
            piece = match.group()
            if group == "string":
                piece = _unescape(text, at, piece)
            elif group == "name":
                piece = piece[1:-1].replace("``", "`")
            tokens.append(Token(_KINDS[group], piece, at, match.end()))
        at = match.end()
    tokens.append(Token(TokenKind.END, "", len(text), len(text)))
    return tokens


def syntax_error(text: str, at: int, problem: str) -> InvalidExpression:
    """An error that shows the line of the filter with a caret under the place.

    >>> print(syntax_error("fare >", 6, "expected a value"))
    invalid filter at character 7: expected a value
      fare >
            ^
    """
    shown = re.sub(r"\s", " ", text)
    start = max(0, at - _CONTEXT)
    end = min(len(shown), at + _CONTEXT)
    before = ("…" if start else "") + shown[start:at]
    line = before + shown[at:end] + ("…" if end < len(shown) else "")
    return InvalidExpression(f"invalid filter at character {at + 1}: {problem}\n  {line}\n  {' ' * len(before)}^")


def _unreadable(character: str) -> str:
    if character in "'\"":
        return "this string has no closing quote"
    if character == "`":
        return "this back-quoted name is empty or has no closing quote"
    return f"unexpected character {character!r}"


def _unescape(text: str, at: int, quoted: str) -> str:
    """A string literal's content. Backslash before % and _ stays, because LIKE patterns need it."""

    def replace(match: re.Match[str]) -> str:
        short, long, octal, other = match.groups()
        if octal is not None:
            return chr(int(octal, 8))
        if other is not None:
            return _ESCAPED.get(other, other)
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise syntax_error(text, at, f"{match.group()} is no character")
        return chr(code)

    quote = quoted[0]
    # Cut at backslash escapes first: the quote after a backslash is not half of a doubled one.
    content = quoted[1:-1]
    pieces: list[str] = []
    position = 0
    for match in _ESCAPE.finditer(content):
        pieces.append(content[position : match.start()].replace(quote * 2, quote))
        pieces.append(replace(match))
        position = match.end()
    pieces.append(content[position:].replace(quote * 2, quote))
    return "".join(pieces)
