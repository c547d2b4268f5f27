"""A sidecar process as a JVM speaks to it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.spark.sidecar.frames import Kind, read_frame, write_frame


class SidecarError(Exception):
    """An `E` frame."""

    def __init__(self, content: Mapping[str, str]) -> None:
        super().__init__(f"{content['type']}: {content['message']}")
        self.type, self.message, self.trace = content["type"], content["message"], content["trace"]


@dataclass
class Streamed:
    """What a request that streams gave."""

    rows: pa.Table | None
    dropped: list[int] | None
    end: Mapping[str, Any]
    kinds: list[Kind] = field(default_factory=list)


class Sidecar:
    """One process, one request at a time."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headwater.spark.sidecar"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        kind, payload = self.receive()
        assert kind is Kind.HELLO
        self.hello: dict[str, Any] = json.loads(payload)

    def __enter__(self) -> Sidecar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
        self.process.stderr.close()

    def send(self, op: str, *, blobs: Sequence[bytes] = (), **arguments: Any) -> None:
        assert self.process.stdin is not None
        query = {"op": op, **arguments, **({"blobs": len(blobs)} if blobs else {})}
        write_frame(self.process.stdin, Kind.QUERY, json.dumps(query).encode())
        for blob in blobs:
            write_frame(self.process.stdin, Kind.BLOB, blob)

    def cancel(self) -> None:
        assert self.process.stdin is not None
        write_frame(self.process.stdin, Kind.CANCEL)

    def receive(self) -> tuple[Kind, bytes]:
        assert self.process.stdout is not None
        found = read_frame(self.process.stdout)
        if found is None:
            assert self.process.stderr is not None
            raise EOFError(self.process.stderr.read().decode())
        return found

    def ask(self, op: str, *, blobs: Sequence[bytes] = (), **arguments: Any) -> Any:
        self.send(op, blobs=blobs, **arguments)
        kind, payload = self.receive()
        content = json.loads(payload)
        if kind is Kind.ERROR:
            raise SidecarError(content)
        assert kind is Kind.ANSWER
        return content

    def stream(self, op: str, **arguments: Any) -> Streamed:
        self.send(op, **arguments)
        return self.collect()

    def collect(self) -> Streamed:
        data, dropped, kinds = bytearray(), None, []
        while True:
            kind, payload = self.receive()
            kinds.append(kind)
            if kind is Kind.ERROR:
                raise SidecarError(json.loads(payload))
            if kind is Kind.POSITIONS:
                assert dropped is None, "positions come once"
                assert len(payload) % 8 == 0
                dropped = np.flatnonzero(np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")).tolist()
            elif kind is Kind.DATA:
                data += payload
            else:
                assert kind is Kind.END
                end = json.loads(payload)
                rows = pa.ipc.open_stream(bytes(data)).read_all() if data and not end["cancelled"] else None
                return Streamed(rows, dropped, end, kinds)

    def open(self, path: object, **options: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("open", path=str(path), options=options, session={"time_zone": "UTC"})
        return found

    def plan(self, opened: Mapping[str, Any], **arguments: Any) -> dict[str, Any]:
        given = {"read_schema": opened["schema"], "metadata_columns": [], "predicates": [], "limit": None, **arguments}
        found: dict[str, Any] = self.ask("plan", handle=opened["handle"], **given)
        self.ask("scan", scan_id=found["scan_id"], blobs=[base64.b64decode(found["scan"])])
        return {**found, "tasks": _rows(found["tasks"], found["partitions"])}


def _rows(columns: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A plan's tasks one by one, as the JVM makes them of their columns. `slice` is what a request about one says."""
    rows = []
    for index, way in enumerate(columns["way"]):
        place, name, size = columns["partition"][index], columns["name"][index], columns["size"][index]
        folder = partitions[place]["path"]
        path = f"{folder}/{name}" if folder else name
        payload = None if columns["payload"] is None else columns["payload"][index]
        rows.append(
            {
                **columns["ways"][way],
                "partition": place,
                "path": path,
                "size": size,
                "delta_bytes": 0 if columns["delta_bytes"] is None else columns["delta_bytes"][index],
                "slice": {"path": path, "size": size} if payload is None else {"payload": payload},
            }
        )
    return rows
