"""Random sequences of writes against a plain model, compared after every step in every mode of reading.

HEADWATER_MODEL_EXAMPLES and HEADWATER_MODEL_STEPS make more of them, and longer ones.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.counts import Record, count
from tests.reliability.write_model import Commit, Model, Row, changes, place_of

import headwater
from headwater.table import Table

EXAMPLES = int(os.environ.get("HEADWATER_MODEL_EXAMPLES", "12"))
STEPS = int(os.environ.get("HEADWATER_MODEL_STEPS", "8"))
COLUMNS = ["id", "ts", "name", "price", "city"]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("city", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
# New rows of a merge-on-read table go to new files, so that the model need not know about files.
APART = {"hoodie.parquet.small.file.limit": "0"}

CDC = {
    "unlogged": {},
    **{
        mode: {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode.upper()}
        for mode in ("op_key_only", "data_before", "data_before_after")
    },
}

rows = st.builds(
    lambda id, ts, name, city: {"id": id, "ts": ts, "name": name, "price": float(ts) / 2, "city": city},
    st.sampled_from("abcdef"),
    st.integers(0, 5),
    st.one_of(st.none(), st.text(max_size=3)),
    st.sampled_from(["sf", "la"]),
)
batches = st.lists(rows, min_size=1, max_size=6)
marked = st.lists(
    st.builds(lambda row, gone: {**row, "_hoodie_is_deleted": gone}, rows, st.sampled_from([True, False, False, None])),
    min_size=1,
    max_size=6,
)
ids = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=3, unique=True)
bounds = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("upsert"), batches),
    st.tuples(st.just("upsert"), batches),
    st.tuples(st.just("upsert"), marked),
    st.tuples(st.just("insert"), batches),
    st.tuples(st.just("bulk_insert"), batches),
    st.tuples(st.just("delete_keys"), ids),
    st.tuples(st.just("delete_where"), bounds),
    st.tuples(st.just("update"), st.tuples(bounds, bounds)),
    st.tuples(st.just("merge"), batches),
    st.tuples(st.just("insert_overwrite"), batches),
    st.tuples(st.just("overwrite"), batches),
    st.tuples(st.just("delete_partitions"), st.sampled_from(["sf", "la"])),
)


@dataclass
class Step:
    instant: str
    completed: str
    commit: Commit


class Run:
    """A table and its model, side by side."""

    def __init__(
        self, folder: str, kind: str, version: int, merge: str, buckets: int | None, logged: str, indexed: bool
    ) -> None:
        self.table: Table = headwater.create(
            folder,
            schema=SCHEMA,
            key="id",
            ordering="ts",
            partition_by="city",
            kind=kind,
            version=version,
            merge=merge,
            name="model",
            index="record_index" if indexed else None if buckets is None else {"bucket": buckets},
            properties=CDC[logged],
        )
        self.indexed = indexed
        self.model = Model(kind == "mor", merge == "event_time", buckets, indexed=indexed)
        self.history: list[Step] = []

    def frame(self, batch: list[Row]) -> Any:
        """Rows as the table is given them."""
        return frame(batch)

    def step(self, name: str, given: Any) -> None:
        result, commit = getattr(self, name)(given)
        if result.instant is None:
            assert commit.before == commit.after, "nothing was committed, and something should have changed"
            return
        self.history.append(Step(result.instant.requested_at, result.instant.completed_at, commit))
        self.check()

    # -------------------------------------------------------------------------------------------------------- writes

    def upsert(self, batch: list[Row]) -> Any:
        return self.table.upsert(self.frame(batch), options=APART), self.model.upsert(batch)

    def insert(self, batch: list[Row]) -> Any:
        return self.table.insert(self.frame(batch), if_present="drop", options=APART), self.model.insert_new(batch)

    def bulk_insert(self, batch: list[Row]) -> Any:
        live = self.model.rows()
        new = [row for row in self.unique(batch) if not self.lives(row, live)]
        first = not self.table.hudi.timeline.commits
        return self.table.bulk_insert(self.frame(new), sort="global"), self.model.insert_new(new, to_files=first)

    def lives(self, row: Row, live: dict[Any, Row]) -> bool:
        return place_of(row) in live or (self.indexed and any(row["id"] == place[1] for place in live))

    def unique(self, batch: list[Row]) -> list[Row]:
        return list({row["id"] if self.indexed else place_of(row): row for row in batch}.values())

    def delete_keys(self, keys: list[str]) -> Any:
        places = [place for place in self.model.rows() if place[1] in keys]
        return self.table.delete(keys), self.model.delete(places)

    def delete_where(self, bound: int) -> Any:
        places = [place for place, row in self.model.rows().items() if row["price"] < bound / 2]
        return self.table.delete(where=f"price < {bound / 2}"), self.model.delete(places)

    def update(self, given: tuple[int, int]) -> Any:
        bound, ts = given
        places = [place for place, row in self.model.rows().items() if row["ts"] >= bound]
        result = self.table.update({"name": "set", "ts": ts}, where=f"ts >= {bound}")
        return result, self.model.update(places, {"name": "set", "ts": ts})

    def merge(self, batch: list[Row]) -> Any:
        batch = self.unique(batch)
        live = self.model.rows()
        if self.indexed:
            batch = [self.model._settled(row, live) for row in batch]
        statement = (
            self.table.merge(self.frame(batch), on="id" if self.indexed else ["id", "city"], options=APART)
            .when_matched_delete(where="source.ts = 0")
            .when_matched_update(["name", "ts", "price"], where="source.ts > 1")
            .when_not_matched_insert(where="source.ts < 5")
        )
        matched = [row for row in batch if place_of(row) in live]
        before = self.model.rows()
        gone = self.model.delete([place_of(row) for row in matched if row["ts"] == 0])
        changed = self.model.upsert([row for row in matched if row["ts"] > 1])
        added = self.model.insert_new([row for row in batch if place_of(row) not in live and row["ts"] < 5])
        assert gone.written == []
        return statement.execute(), Commit([*changed.written, *added.written], before, self.model.rows())

    def insert_overwrite(self, batch: list[Row]) -> Any:
        batch = self.unique(batch)
        if self.indexed:
            city = batch[0]["city"]
            others = {place[1] for place in self.model.rows() if place[0] != city}
            batch = [row for row in batch if row["city"] == city and row["id"] not in others]
        return self.table.insert_overwrite(self.frame(batch)), self.model.overwrite(
            batch, {row["city"] for row in batch}
        )

    def overwrite(self, batch: list[Row]) -> Any:
        batch = self.unique(batch)
        return self.table.overwrite(self.frame(batch)), self.model.overwrite(batch, None)

    def delete_partitions(self, city: str) -> Any:
        if city not in self.table.hudi.listing.partitions():
            return self.upsert([{"id": "p", "ts": 1, "name": None, "price": 0.5, "city": city}])
        return self.table.delete_partitions([city]), self.model.overwrite([], [city])

    # --------------------------------------------------------------------------------------------------------- reads

    def check(self) -> None:
        last = self.history[-1]
        opened = headwater.open(self.table.uri)
        expected = list(last.commit.after.values())
        assert same(self.table.scan(columns=COLUMNS).to_arrow(), expected)
        assert same(opened.scan(columns=COLUMNS).to_arrow(), expected)
        for step in self.history[-3:]:
            travelled = opened.scan(columns=COLUMNS, as_of=step.instant).to_arrow()
            assert same(travelled, list(step.commit.after.values())), f"as of {step.instant}"
        start = self.history[-2].instant if len(self.history) > 1 else None
        written = opened.incremental(start, last.instant, columns=COLUMNS).to_arrow()
        assert same(written, last.commit.written), "incremental"
        self.check_changes(opened, start, last)

    def check_changes(self, opened: Table, start: str | None, last: Step) -> None:
        found = []
        for change in opened.changes(start, last.instant).to_arrow().to_pylist():
            before, after = (None if image is None else columns(image) for image in (change["before"], change["after"]))
            if change["op"] != "u" or before != after:
                found.append((change["op"], before, after))
        assert sorted(found, key=repr) == sorted(changes(last.commit), key=repr), "changes"


def frame(batch: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{"_hoodie_is_deleted": None, **row} for row in batch], schema=SCHEMA)


def columns(row: Row) -> Row:
    return {name: row[name] for name in COLUMNS}


def same(found: pa.Table, expected: list[Row]) -> bool:
    left = sorted(found.to_pylist(), key=repr)
    right = sorted(map(columns, expected), key=repr)
    assert left == right
    return True


@pytest.mark.parametrize("merge", ["event_time", "commit_time"])
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("buckets", [None, 2], ids=["files", "buckets"])
def test_any_sequence_of_writes_gives_the_rows_of_the_model(
    buckets: int | None, kind: str, version: int, merge: str, record_property: Record
) -> None:
    sequences(record_property, kind, version, merge, buckets)


def sequences(
    record: Record,
    kind: str,
    version: int,
    merge: str,
    buckets: int | None,
    logged: str = "unlogged",
    *,
    indexed: bool = False,
    made: type[Run] = Run,
    examples: int = EXAMPLES,
    longest: int = STEPS,
    what: str = "model test: steps",
    phases: tuple[Phase, ...] = tuple(Phase),
) -> None:
    taken, wrong = 0, 1

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        database=None,
        phases=phases,
    )
    @given(st.lists(steps, min_size=1, max_size=longest))
    def run(sequence: list[tuple[str, Any]]) -> None:
        nonlocal taken
        with tempfile.TemporaryDirectory() as folder:
            table = made(folder, kind, version, merge, buckets, logged, indexed)
            for name, given_ in sequence:
                table.step(name, given_)
                taken += 1

    try:
        run()
        wrong = 0
    finally:
        count(record, what, taken, wrong=wrong)


@pytest.mark.parametrize("logged", [mode for mode in CDC if mode != "unlogged"])
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_logged_changes_are_those_of_the_model(kind: str, version: int, logged: str, record_property: Record) -> None:
    sequences(record_property, kind, version, "event_time", None, logged)


@pytest.mark.parametrize("merge", ["event_time", "commit_time"])
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_record_index_finds_the_records_of_the_model(
    kind: str, version: int, merge: str, record_property: Record
) -> None:
    sequences(record_property, kind, version, merge, None, indexed=True)
