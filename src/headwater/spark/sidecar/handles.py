"""Tables that the driver has open, each under a handle that the JVM names it by."""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from headwater.errors import HeadwaterError, TableChanged
from headwater.spark.sidecar.kept_tables import KeptTables
from headwater.spark.sidecar.tables import OpenTable

_MOST_OPEN = 128


class UnknownHandle(HeadwaterError, LookupError):
    """A handle that this process never gave out: the process before it died."""


class OpenTables:
    """Handles of open tables. One that was not used for long is opened again when it is, if nothing changed since."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[str, Mapping[str, str], Mapping[str, Any]]] = {}
        self._states: dict[str, str] = {}
        self._open: OrderedDict[str, OpenTable] = OrderedDict()
        self._tables = KeptTables()
        self._numbers = itertools.count(1)

    def open(self, path: str, options: Mapping[str, str], session: Mapping[str, Any]) -> str:
        handle = f"{os.getpid()}-{next(self._numbers)}"
        table = self._tables.open(path, options, session)
        self._keep(handle, table)
        self._asked[handle] = (path, options, session)
        self._states[handle] = table.state
        return handle

    def get(self, handle: str) -> OpenTable:
        found = self._open.get(handle)
        if found is None:
            if handle not in self._asked:
                raise UnknownHandle(f"no table is open under the handle {handle}; open it again")
            found = self._tables.open(*self._asked[handle])
            if found.state != self._states[handle]:
                raise TableChanged(
                    f"{self._asked[handle][0]}: the table has changed since it was loaded, and its state of then is no "
                    "longer at hand. Load it again."
                )
        self._keep(handle, found)
        return found

    def release(self, handle: str) -> None:
        self._asked.pop(handle, None)
        self._states.pop(handle, None)
        self._open.pop(handle, None)

    def _keep(self, handle: str, table: OpenTable) -> None:
        self._open[handle] = table
        self._open.move_to_end(handle)
        # Tables that nothing happened to in between are one and cost little, however many handles there are.
        while len(self._open) > _MOST_OPEN and len({id(one.table.hudi) for one in self._open.values()}) > _MOST_OPEN:
            self._open.popitem(last=False)
