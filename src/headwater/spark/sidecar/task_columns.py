"""The tasks of a plan by columns, as they go to the JVM: a plan of ten thousand files is a few lists.

What many tasks share is told once: how they are read, and the folder that their files are in.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.hudi.file_names import parse_base_file
from headwater.spark.sidecar.merging import decode_slice, encode_slice
from headwater.spec.model import FileGroupId, FileRef, FileSlice


@dataclass(frozen=True, slots=True)
class Way:
    """How tasks are read, and what their files call the columns."""

    how: str
    why: str = ""
    schema_key: str = ""
    renames: tuple[tuple[tuple[str, ...], str | None], ...] = ()
    """Paths of columns, and the names that files have for them."""

    def to_json(self) -> dict[str, Any]:
        renames = [{"column": list(column), "file": name} for column, name in self.renames]
        return {"how": self.how, "why": self.why, "schema_key": self.schema_key, "renames": renames}


@dataclass(slots=True)
class TaskColumns:
    """Tasks in their order. As a sequence it gives each as an object, with its path and its payload.

    >>> tasks = TaskColumns([Way("parquet", schema_key="1")], [0], [0], ["f_0_1.parquet"], [10], [0], [None], ["a=1"])
    >>> tasks[0]["path"], tasks[0]["size"], decode_slice(base64.b64decode(tasks[0]["payload"])).group.file_id
    ('a=1/f_0_1.parquet', 10, 'f')
    >>> tasks.to_json()["name"], tasks.to_json()["payload"]
    (['f_0_1.parquet'], None)
    """

    ways: list[Way] = field(default_factory=list)
    way: list[int] = field(default_factory=list)
    """Of each task: an index into `ways`."""
    partition: list[int] = field(default_factory=list)
    """Of each task: an index into `folders`, and into the partitions of the plan."""
    name: list[str] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    delta_bytes: list[int] = field(default_factory=list)
    payload: list[str | None] = field(default_factory=list)
    """None where path and size tell as much: `base_slice`."""
    folders: Sequence[str] = ("",)

    def __len__(self) -> int:
        return len(self.way)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> dict[str, Any]:
        folder, name, size = self.folders[self.partition[index]], self.name[index], self.size[index]
        path = f"{folder}/{name}" if folder else name
        return {
            "id": index,
            **self.ways[self.way[index]].to_json(),
            "path": path,
            "size": size,
            "delta_bytes": self.delta_bytes[index],
            "partition": self.partition[index],
            "payload": self.payload[index] or slice_text(base_slice(path, size)),
        }

    def take(self, chosen: Sequence[int]) -> TaskColumns:
        """Some of the tasks."""
        return TaskColumns(
            self.ways,
            [self.way[index] for index in chosen],
            [self.partition[index] for index in chosen],
            [self.name[index] for index in chosen],
            [self.size[index] for index in chosen],
            [self.delta_bytes[index] for index in chosen],
            [self.payload[index] for index in chosen],
            self.folders,
        )

    def counts(self) -> Counter[tuple[str, str]]:
        """How many tasks are read in which way, and why."""
        found: Counter[tuple[str, str]] = Counter()
        for index, count in Counter(self.way).items():
            found[self.ways[index].how, self.ways[index].why] += count
        return found

    def to_json(self) -> dict[str, Any]:
        """What the JVM gets; columns that say nothing are null."""
        return {
            "ways": [way.to_json() for way in self.ways],
            "way": self.way,
            "partition": self.partition,
            "name": self.name,
            "size": self.size,
            "delta_bytes": self.delta_bytes if any(self.delta_bytes) else None,
            "payload": self.payload if any(self.payload) else None,
        }


def slice_text(slice_: FileSlice) -> str:
    """A slice as a task's payload."""
    return base64.b64encode(encode_slice(slice_)).decode("ascii")


def base_slice(path: str, size: int | None) -> FileSlice:
    """The slice that is nothing but a base file.

    >>> base_slice("a=1/f-0_1-2-3_20260101.parquet", 7).base_instant
    '20260101'
    """
    folder, _, name = path.rpartition("/")
    parsed = parse_base_file(name)
    if parsed is None:
        raise ValueError(f"{path}: is the name of no base file")
    return FileSlice(FileGroupId(folder, parsed.file_id), parsed.instant, FileRef(path, size))


def slice_of(request: Mapping[str, Any]) -> FileSlice:
    """The slice that a request is about: its payload, or its base file where there is none."""
    payload = request.get("payload")
    if payload is None:
        return base_slice(str(request["path"]), int(request["size"]))
    return decode_slice(base64.b64decode(payload))
