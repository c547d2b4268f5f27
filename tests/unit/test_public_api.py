"""What is public is documented, and what is documented is public."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

import headwater
import headwater.errors
import headwater.spec
import headwater.spec.expressions
from headwater.spec import FileIndex, FileSliceReader, RecordIndex, Timeline

PUBLIC = (headwater, headwater.spec, headwater.spec.expressions)


def public_of(module: ModuleType) -> dict[str, Any]:
    return {name: getattr(module, name) for name in module.__all__}


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_public_function_and_class_has_a_docstring(module: ModuleType) -> None:
    bare = [
        name
        for name, value in public_of(module).items()
        if (inspect.isclass(value) or inspect.isroutine(value)) and not _own_doc(value)
    ]
    assert not bare


def _own_doc(value: Any) -> str:
    """A dataclass without one gets its signature as docstring: that does not count."""
    doc = (value.__doc__ or "").strip()
    return "" if inspect.isclass(value) and doc.startswith(f"{value.__name__}(") else doc


@pytest.mark.parametrize("protocol", [Timeline, FileIndex, RecordIndex, FileSliceReader], ids=lambda p: p.__name__)
def test_every_method_of_a_protocol_has_a_docstring(protocol: type) -> None:
    members = {name: value for name, value in vars(protocol).items() if not name.startswith("_")}
    assert members
    bare = [name for name, value in members.items() if not inspect.getdoc(value)]
    assert not bare


@pytest.mark.parametrize("class_", [headwater.Table, headwater.Scan], ids=lambda c: c.__name__)
def test_every_method_of_the_public_face_has_a_docstring(class_: type) -> None:
    methods = {n: v for n, v in vars(class_).items() if not n.startswith("_") and inspect.isfunction(v)}
    bare = [name for name, value in methods.items() if not inspect.getdoc(value)]
    assert not bare


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_exported_names_exist_once(module: ModuleType) -> None:
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_every_error_is_also_a_builtin() -> None:
    base = headwater.HeadwaterError
    errors = [
        e for e in vars(headwater.errors).values() if inspect.isclass(e) and issubclass(e, base) and e is not base
    ]
    assert errors
    for error in errors:
        builtins = [each for each in error.__mro__ if each.__module__ == "builtins" and issubclass(each, Exception)]
        assert set(builtins) - {Exception}, f"{error.__name__} is no builtin error"
        assert error.__doc__
