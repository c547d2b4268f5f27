"""LIKE patterns: their parts, and the simpler test that most of them are."""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeAlias

from headwater.errors import InvalidExpression


class Wildcard(Enum):
    """What is not plain text in a pattern."""

    ANY_TEXT = "%"
    ANY_CHARACTER = "_"


Part: TypeAlias = "str | Wildcard"


def parts_of(pattern: str, escape: str) -> list[Part]:
    """The pattern as runs of plain text and wildcards; an escape before anything but % _ and itself is an error.

    >>> parts_of("10!%_a%%", "!")
    ['10%', <Wildcard.ANY_CHARACTER: '_'>, 'a', <Wildcard.ANY_TEXT: '%'>]
    """
    parts: list[Part] = []
    text = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None or following not in ("%", "_", escape):
                raise InvalidExpression(
                    f"the LIKE pattern {pattern!r} has its escape {escape!r} before something other than % _ or itself"
                )
            text += following
        elif character in "%_":
            if text:
                parts.append(text)
                text = ""
            wildcard = Wildcard(character)
            if wildcard is Wildcard.ANY_CHARACTER or not parts or parts[-1] is not wildcard:
                parts.append(wildcard)
        else:
            text += character
    return [*parts, text] if text else parts


def prefix_of(pattern: str, escape: str) -> str:
    """The plain text that every match begins with.

    >>> prefix_of("ab_c%", "!")
    'ab'
    """
    parts = parts_of(pattern, escape)
    return parts[0] if parts and isinstance(parts[0], str) else ""


def regex_of(pattern: str, escape: str) -> str:
    """A regular expression for the whole string, the same for RE2 and for Python with DOTALL.

    >>> regex_of("a.b%_", "!")
    'a\\\\.b.*.'
    """
    translated = {Wildcard.ANY_TEXT: ".*", Wildcard.ANY_CHARACTER: "."}
    return "".join(re.escape(part) if isinstance(part, str) else translated[part] for part in parts_of(pattern, escape))
