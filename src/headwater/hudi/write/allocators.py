"""Memory that is free and that allocators keep for later, given back to the system.

A process that wrote a large batch goes on to other things: a Spark driver, a worker that waits for its next task.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def give_back() -> None:
    """Give back what no object takes any more, Arrow's and that of everything else.

    >>> give_back()
    """
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def giving_back(operation: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """An operation that gives back what it took, once its own variables are gone.

    >>> giving_back(len)([1, 2])
    2
    """

    @wraps(operation)
    def run(*given: _Given.args, **named: _Given.kwargs) -> _Result:
        try:
            return operation(*given, **named)
        finally:
            give_back()

    return run


@cache
def _malloc_trim() -> Callable[[int], Any] | None:
    """glibc's own; threads that are gone leave it heaps that nothing else empties. Others keep less."""
    try:
        found: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found
