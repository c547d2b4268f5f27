"""Read a story's table with Headwater in every mode that Hudi read it, and say what differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.fixture_reader import read as read_table
from tests.fixtures.comparison import difference
from tests.fixtures.suites import Case
from tests.interop.known_differences import known_difference

import headwater
from headwater.hudi.schema import META_COLUMNS

CHANGE_COLUMNS = ("op", "ts_ms", "before", "after")
PYTHON = "python"
WAYS = (PYTHON, "dsv2", "merge", "fallback")
"""Without a JVM, and the three paths through Spark."""
MODES = ("snapshot", "read_optimized", "time_travel", "filter")
"""What Spark can be asked for."""


@dataclass(frozen=True)
class Outcome:
    """What came of one read: passed, failed, known (a difference with a reason), or skipped (Hudi itself failed)."""

    table: str
    read: str
    state: str
    message: str = ""


@dataclass(frozen=True)
class Way:
    """How a table is read."""

    name: str
    metadata: bool

    def __str__(self) -> str:
        told = [] if self.name == PYTHON else [f"by {self.name}"]
        return " ".join([*told, *([] if self.metadata else ["no-mdt"])])


def compare_table(
    folder: Path, table: str, releases: Sequence[str], ways: Sequence[str] = (PYTHON,)
) -> Iterator[Outcome]:
    """The outcome of every read of a table in each way; `releases` read it, the one whose answer counts first."""
    answers = [json.loads((folder / f"{table}.reads.{release}.json").read_text()) for release in releases]
    for answer, release in zip(answers, releases, strict=True):
        answer["reads"] = [{"reader": release, **read} for read in answer["reads"]]
    story = answers[0]["story"]
    if not answers[0]["commits"]:
        return
    for metadata in (True, False) if PYTHON in ways else ():
        yield _by_our_own_rows(folder / table, metadata)
    for number, read in enumerate(answers[0]["reads"]):
        others = [answer["reads"][number] for answer in answers[1:] if number < len(answer["reads"])]
        if "error" in read:
            read, others = next((other for other in others if "error" not in other), read), []
        for way in ways:
            if way == PYTHON or read["mode"] in MODES:
                for metadata in (True, False):
                    yield _outcome(folder / table, story, read, others, Way(way, metadata))


def _by_our_own_rows(path: Path, metadata: bool) -> Outcome:
    """Look-ups and filters on what paths are made of give the rows that a scan of everything has, and no others."""
    name = f"look-ups and filters beside a scan{'' if metadata else ' no-mdt'}"
    try:
        message = _inconsistency(headwater.open(path, metadata=metadata))
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    return Outcome(path.name, name, "passed" if message is None else "failed", message or "")


def _inconsistency(table: headwater.Table) -> str | None:
    rows = table.scan().to_arrow()

    def differs(what: str, got: pa.Table, chosen: pa.Array | pa.ChunkedArray) -> str | None:
        expected, found = (Counter(map(repr, some.to_pylist())) for some in (rows.filter(chosen), got))
        return f"{what}: {found.total()} rows, {expected.total()} expected" if expected != found else None

    keys = rows.column("_hoodie_record_key")
    counted = pc.value_counts(keys.drop_null())
    # Of a key that is there twice, an index may know one place.
    once = counted.field(0).filter(pc.equal(counted.field(1), 1))[::3][:8]
    found = [differs(f"look-up of {once.to_pylist()}", table.lookup(once), pc.is_in(keys, once))] if len(once) else []
    for name in ("ev", "part"):
        for value in pc.unique(rows.column(name)).drop_null().to_pylist()[:4] if name in rows.column_names else ():
            for text, of in ((f"{name} = {value!r}", pc.equal), (f"{name} > {value!r}", pc.greater)):
                test = headwater.col(name) == value if of is pc.equal else headwater.col(name) > value
                chosen = of(rows.column(name), pa.scalar(value, rows.schema.field(name).type))
                found.append(differs(text, table.scan(filter=test).to_arrow(), chosen))
    return next((message for message in found if message is not None), None)


def _outcome(path: Path, story: Mapping[str, Any], read: Mapping[str, Any], others: Sequence[Any], way: Way) -> Outcome:
    name = " ".join([read["mode"], *(f"{k}={v}" for k, v in read["opts"].items()), str(way)]).strip()
    message = _difference(path, story, read, way)
    if "error" in read:
        ours = "we answer" if message is None else f"we: {message}"
        return Outcome(path.name, name, "skipped", f"Hudi: {read['error']}; {ours}")
    if message is None:
        return Outcome(path.name, name, "passed")
    for other in others:
        if "error" not in other and _difference(path, story, other, way) is None:
            return Outcome(path.name, name, "known", f"as the writing release reads it, not as the newest: {message}")
    reason = known_difference(story, read, message)
    return Outcome(path.name, name, "known" if reason else "failed", f"{reason}: {message}" if reason else message)


def _difference(path: Path, story: Mapping[str, Any], read: Mapping[str, Any], way: Way) -> str | None:
    try:
        got = _read(path, read, way)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if "error" in read:
        return None
    columns = CHANGE_COLUMNS if read["mode"] == "cdc" else tuple(name for name, _ in read["types"])
    if read["mode"] == "incremental":
        # Of versions of a base file with the same row, Hudi may read a later one; partition values come url-encoded.
        columns = tuple(name for name in columns if name not in ("_hoodie_file_name", *_encoded(story)))
        got = got.drop_columns(list(_encoded(story)))
    rows = [_whole_images(row, got.schema) for row in read["rows"]] if read["mode"] == "cdc" else read["rows"]
    case = Case("", read["mode"], read["opts"], rows, columns, loose=frozenset(story["loose"]))
    found = difference(case, got)
    if found is None and read["mode"] != "cdc":
        expected = [(name, kind) for name, kind in read["types"] if name in got.column_names]
        expected = [(name, kind) for name, kind in expected if name not in story["loose"]]
        # Without meta fields, Hudi gives no meta columns; ours are null (reader-spec R21).
        left_out = {*story["loose"], *(META_COLUMNS if not story["meta_fields"] else ())}
        ours = [(field.name, _spark_type(field.type)) for field in got.schema if field.name not in left_out]
        if sorted(expected) != sorted(ours):
            return f"types: {sorted(set(ours) - set(expected))}, expected {sorted(set(expected) - set(ours))}"
    return found


def _read(path: Path, read: Mapping[str, Any], way: Way) -> pa.Table:
    if way.name != PYTHON:
        from tests.spark.fixture_reader import read as read_by_spark  # starts a JVM

        return read_by_spark(way.name, str(path), read["mode"], metadata=way.metadata, **read["opts"])
    if read["mode"] == "filter":
        return headwater.open(path, metadata=way.metadata).scan(**read["opts"]).to_arrow()
    return read_table(str(path), read["mode"], metadata=way.metadata, **read["opts"])


def _whole_images(row: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """Hudi 1.2.0 leaves null columns out of the images of some changes."""
    whole = dict(row)
    for name in ("before", "after"):
        image = json.loads(row[name]) if isinstance(row[name], str) else row[name]
        whole[name] = image and {**{field.name: None for field in schema.field(name).type}, **image}
    return whole


def _encoded(story: Mapping[str, Any]) -> tuple[str, ...]:
    is_encoded = story["options"]["hoodie.datasource.write.partitionpath.urlencode"] == "true"
    return ("part",) if is_encoded and story["partition_type"] in ("odd", "slashed") else ()


def _spark_type(kind: pa.DataType) -> str:
    """Spark's name of an Arrow type.

    >>> _spark_type(pa.map_(pa.string(), pa.struct([("a", pa.decimal128(9, 2))])))
    'map<string,struct<a:decimal(9,2)>>'
    """
    types = pa.types
    if types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_spark_type(field.type)}' for field in kind)}>"
    if types.is_map(kind):
        return f"map<{_spark_type(kind.key_type)},{_spark_type(kind.item_type)}>"
    if types.is_nested(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    names = {"int32": "int", "int64": "bigint", "date32[day]": "date", "bool": "boolean"}
    return names.get(str(kind), str(kind).removeprefix("large_"))
