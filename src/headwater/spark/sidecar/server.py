"""Answers requests: one at a time, each ended by an answer, an end or an error (docs/spark-connector.md)."""

from __future__ import annotations

import base64
import functools
import importlib
import json
import logging
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.errors import HeadwaterError, InvalidArgument
from headwater.hudi.merge.memo import MergeMemo
from headwater.spark.sidecar.aggregating import plan_aggregate, run_aggregate
from headwater.spark.sidecar.frames import Kind, Writable, write_frame
from headwater.spark.sidecar.handles import OpenTables
from headwater.spark.sidecar.merging import SliceScan, batches, bitmap
from headwater.spark.sidecar.planning import described, plan, push
from headwater.spark.sidecar.tables import OpenTable, location
from headwater.spark.sidecar.task_columns import TaskColumns, slice_of
from headwater.spark.sidecar.warehouse import list_folder

_LOG = logging.getLogger("headwater")
_MOST_SCANS = 256
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class UnknownScan(HeadwaterError, LookupError):
    """A scan that was not sent to this process."""


class Cancelled(Exception):
    """The JVM wants no more of this request."""


@dataclass(frozen=True)
class Request:
    """A question, what came with it, and whether its answer is still wanted."""

    query: Mapping[str, Any]
    blobs: Sequence[bytes] = ()
    cancelled: Event = field(default_factory=Event)


class Server:
    """Holds what requests refer to: tables by handle, scans by id."""

    def __init__(self, out: Writable, version: str, *, cache_bytes: int = 0) -> None:
        self._out = out
        self._version = version
        self._memo = MergeMemo(cache_bytes) if cache_bytes else None
        self._tables = OpenTables()
        self._scans: OrderedDict[str, SliceScan] = OrderedDict()
        self._answers: dict[str, Callable[[Request], Mapping[str, Any]]] = {
            "ping": lambda request: {},
            "list": self._list,
            "open": self._open,
            "push": self._push,
            "plan": self._plan,
            "partitions": self._partitions,
            "aggregate_plan": self._aggregate_plan,
            "release": self._release,
            "scan": self._scan,
            **{name: functools.partial(_define, name) for name in ("create", "alter", "truncate", "delete", "drop")},
        }
        self._streams: dict[str, Callable[[Request, _RowStream], None]] = {
            "merge": self._merge,
            "read": self._rows,
            "aggregate": self._aggregate,
        }

    def answer(self, request: Request) -> None:
        """Do what is asked and end the request, whatever happens."""
        op = str(request.query.get("op"))
        began = time.perf_counter()
        try:
            if op in self._answers:
                self._send(Kind.ANSWER, self._answers[op](request))
            elif op in self._streams:
                stream = _RowStream(self._out, request.cancelled)
                try:
                    self._streams[op](request, stream)
                    cancelled = False
                except Cancelled:
                    cancelled = True
                metrics = {**stream.metrics, "seconds": time.perf_counter() - began}
                self._send(Kind.END, {"metrics": metrics, "cancelled": cancelled})
            else:
                known = ", ".join([*self._answers, *self._streams])
                raise InvalidArgument(f"no request {op!r}; this sidecar knows: {known}")
        except BrokenPipeError:
            raise
        except Exception as error:
            if not isinstance(error, HeadwaterError):
                _LOG.exception("request %s failed", op)
            self._send(Kind.ERROR, describe_error(error))
        finally:
            if op in self._streams:
                pa.default_memory_pool().release_unused()

    def _send(self, kind: Kind, content: Mapping[str, Any]) -> None:
        write_frame(self._out, kind, json.dumps(content, separators=(",", ":"), default=_columns).encode("utf-8"))

    def _open(self, request: Request) -> Mapping[str, Any]:
        query = request.query
        handle = self._tables.open(str(query["path"]), query.get("options") or {}, query.get("session") or {})
        return {"handle": handle, **self._tables.get(handle).describe()}

    def _list(self, request: Request) -> Mapping[str, Any]:
        return list_folder(location(str(request.query["path"])))

    def _push(self, request: Request) -> Mapping[str, Any]:
        found = push(self._tables.get(request.query["handle"]), request.query["predicates"])
        return {"classes": [one.kind for one in found]}

    def _partitions(self, request: Request) -> Mapping[str, Any]:
        table = self._tables.get(request.query["handle"])
        return {"partitions": [described(one.path, one.as_mapping()) for one in table.partitions]}

    def _plan(self, request: Request) -> Mapping[str, Any]:
        return plan(self._read(request), request.query, self._version)

    def _aggregate_plan(self, request: Request) -> Mapping[str, Any]:
        return plan_aggregate(self._read(request), request.query, self._version)

    def _read(self, request: Request) -> OpenTable:
        """The table of a scan, which may have options beyond those that the table was opened with."""
        return self._tables.get(request.query["handle"]).reading(request.query.get("options") or {})

    def _release(self, request: Request) -> Mapping[str, Any]:
        self._tables.release(str(request.query["handle"]))
        return {}

    def _scan(self, request: Request) -> Mapping[str, Any]:
        if len(request.blobs) != 1:
            raise InvalidArgument(f"a scan comes with one blob, not {len(request.blobs)}")
        self._scans[str(request.query["scan_id"])] = SliceScan.from_bytes(request.blobs[0], self._version)
        while len(self._scans) > _MOST_SCANS:
            self._scans.popitem(last=False)
        return {}

    def _known_scan(self, request: Request) -> SliceScan:
        scan_id = str(request.query["scan_id"])
        if scan_id not in self._scans:
            raise UnknownScan(f"scan {scan_id} is not known to this sidecar; send it first")
        self._scans.move_to_end(scan_id)
        return self._scans[scan_id]

    def _remembering(self, request: Request) -> SliceScan:
        """The scan, with outcomes kept: above all those of slices that the JVM gives to this process."""
        scan = self._known_scan(request)
        if self._memo is None or not scan.remembers:
            return scan
        return replace(scan, reader=scan.reader.remembering(self._memo, primary=bool(request.query.get("owns", True))))

    def _merge(self, request: Request, stream: _RowStream) -> None:
        slice_ = slice_of(request.query)
        scan = self._remembering(request)
        wanted = bool(request.query.get("rows", True))
        dropped = []
        told = False
        for positions, added, is_last in scan.merge(slice_, rows=wanted):
            dropped.append(positions)
            if is_last:
                stream.positions(dropped)
                told = True
            if added is not None:
                stream.rows(added, scan.schema)
        if not told:
            stream.positions(dropped)
        if wanted:
            stream.end(scan.schema)

    def _rows(self, request: Request, stream: _RowStream) -> None:
        scan, slice_ = self._known_scan(request), slice_of(request.query)
        for table in scan.read(slice_):
            stream.rows(table, scan.schema)
        stream.end(scan.schema)

    def _aggregate(self, request: Request, stream: _RowStream) -> None:
        payloads = [base64.b64decode(one) for one in request.query["payloads"]]
        schema, rows = run_aggregate(self._remembering(request), payloads, stream.check)
        stream.rows(pa.Table.from_batches([rows]), schema)
        stream.end(schema)


def _columns(part: object) -> object:
    """The part of an answer that is no JSON by itself."""
    if isinstance(part, TaskColumns):
        return part.to_json()
    raise TypeError(f"an answer with a {type(part).__name__} in it")


def _define(name: str, request: Request) -> Mapping[str, Any]:
    """What changes a table; loaded when the first such request comes, since reads need none of it."""
    definitions = importlib.import_module("headwater.spark.sidecar.definitions")
    answer: Mapping[str, Any] = getattr(definitions, name)(request.query)
    return answer


class _RowStream:
    """Positions and one Arrow stream, in frames, for as long as they are wanted."""

    def __init__(self, out: Writable, cancelled: Event) -> None:
        self._out = out
        self._cancelled = cancelled
        self._began = False
        self.metrics = {"rows_dropped": 0, "rows": 0, "bytes": 0}

    def positions(self, dropped: Sequence[np.ndarray[Any, Any]]) -> None:
        self.check()
        self.metrics["rows_dropped"] = sum(len(part) for part in dropped)
        self._write(Kind.POSITIONS, bitmap(dropped))

    def rows(self, table: pa.Table, schema: pa.Schema) -> None:
        self._begin(schema)
        for batch in batches(table):
            self.check()
            self._write(Kind.DATA, batch.serialize())
            self.metrics["rows"] += batch.num_rows

    def end(self, schema: pa.Schema) -> None:
        self._begin(schema)
        self._write(Kind.DATA, _END_OF_STREAM)

    def _begin(self, schema: pa.Schema) -> None:
        self.check()
        if not self._began:
            self._write(Kind.DATA, schema.serialize())
            self._began = True

    def _write(self, kind: Kind, payload: Any) -> None:
        write_frame(self._out, kind, payload)
        self.metrics["bytes"] += memoryview(payload).nbytes

    def check(self) -> None:
        """Raises where the answer is no longer wanted."""
        if self._cancelled.is_set():
            raise Cancelled


def describe_error(error: BaseException) -> dict[str, Any]:
    """An error as the JVM gets it. It shows the trace of errors that nobody raised on purpose."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    meant = isinstance(error, HeadwaterError)
    return {"type": type(error).__name__, "message": str(error), "trace": trace, "meant": meant}
