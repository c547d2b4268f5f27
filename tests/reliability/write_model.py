"""What a table should hold, told in plain Python: dictionaries and one record at a time, no Arrow, no files.

A record of a merge-on-read table is a base row and what its log adds up to; Hudi's rules decide between the two when it
is read (facts 6.1, 15.1). A record of a copy-on-write table is its row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

Row = dict[str, Any]
Place = tuple[str, str]
"""Partition and key."""


class Version(NamedTuple):
    """A version in a log: a row, or a delete (which may lack an ordering value)."""

    ts: int | None
    row: Row | None


@dataclass(frozen=True)
class Record:
    base: Row | None = None
    log: Version | None = None


@dataclass
class Commit:
    """What one commit did: rows that it wrote, and the table before and after."""

    written: list[Row]
    before: dict[Place, Row]
    after: dict[Place, Row]
    replaced: set[Place] = field(default_factory=set)


@dataclass
class Model:
    merge_on_read: bool
    by_event: bool
    buckets: int | None = None
    """Of a table with a bucket index: a bucket that exists takes every version of its keys, known or not."""
    taken: set[tuple[str, int]] = field(default_factory=set)
    indexed: bool = False
    """With a record index a key is one record in all of the table and stays in its partition; a deleted key is new."""
    records: dict[Place, Record] = field(default_factory=dict)

    def rows(self) -> dict[Place, Row]:
        found = {place: self.read(record) for place, record in self.records.items()}
        return {place: row for place, row in found.items() if row is not None}

    def read(self, record: Record) -> Row | None:
        base, log = record.base, record.log
        if log is None:
            return base
        if base is None or self._wins(log, base["ts"]):
            return log.row
        return base

    def _wins(self, newer: Version, older_ts: int | None) -> bool:
        return not self.by_event or newer.ts is None or older_ts is None or newer.ts >= older_ts

    def _fold(self, older: Version | None, newer: Version) -> Version:
        if older is None or not self.by_event:
            return newer
        if older.ts is None:
            return older if newer.row is None else newer
        return newer if self._wins(newer, older.ts) else older

    def combined(self, rows: Iterable[Row]) -> list[Row]:
        """One row of a batch for each record."""
        found: dict[Place, Row] = {}
        for row in rows:
            place = ("", row["id"]) if self.indexed else place_of(row)
            if place not in found or not self.by_event or row["ts"] >= found[place]["ts"]:
                found[place] = row
        return list(found.values())

    # ------------------------------------------------------------------------------------------------------- writes

    def upsert(self, rows: Iterable[Row]) -> Commit:
        before = self.rows()
        written = []
        for row in self.combined(rows):
            deletes = bool(row.get("_hoodie_is_deleted"))
            if self.indexed:
                row = self._settled(row, before)
            version = Version(row["ts"], None if deletes else stored(row))
            if self._apply(place_of(row), version) and not deletes:
                written.append(stored(row))
        return Commit(written, before, self.rows())

    def _apply(self, place: Place, version: Version) -> bool:
        """One version of a record comes in; whether a row of it was written."""
        known = self.records.get(place)
        if known is None and self.buckets and self.merge_on_read:
            if version.row is None and self._bucket(place) not in self.taken:
                return False
            known = Record()
        if known is None:
            if version.row is None:
                return False
            self._place(place, version.row)
            return True
        if self.merge_on_read:
            self.records[place] = replace(known, log=self._fold(known.log, version))
            self.taken.add(self._bucket(place))
            return True
        assert known.base is not None
        if not self._wins(version, known.base["ts"]):
            return False
        if version.row is None:
            del self.records[place]
        else:
            self.records[place] = Record(base=version.row)
        return True

    def _settled(self, row: Row, live: dict[Place, Row]) -> Row:
        """The row in the partition where its record lives; a record that lives nowhere is forgotten."""
        home = next((place[0] for place in live if place[1] == row["id"]), None)
        if home is not None:
            return {**row, "city": home}
        for place in [place for place in self.records if place[1] == row["id"]]:
            del self.records[place]
        return row

    def _place(self, place: Place, row: Row) -> None:
        self.records[place] = Record(base=row)
        self.taken.add(self._bucket(place))

    def _bucket(self, place: Place) -> tuple[str, int]:
        if not self.buckets:
            return place[0], 0
        number = 0
        for letter in place[1]:
            number = (31 * number + ord(letter)) & 0xFFFFFFFF  # Java's hash of a text, and of a list of that text
        return place[0], ((31 + number) & 0x7FFFFFFF) % self.buckets

    def insert_new(self, rows: Iterable[Row], *, to_files: bool = False) -> Commit:
        """Rows whose records do not live; each gets a place of its own. In buckets that is a log, at first a file."""
        before = self.rows()
        written = []
        for row in self.combined(rows):
            if self.indexed:
                row = self._settled(row, before)
            if place_of(row) not in before and not row.get("_hoodie_is_deleted"):
                if self.buckets and self.merge_on_read and not to_files:
                    self._apply(place_of(row), Version(row["ts"], stored(row)))
                else:
                    self._place(place_of(row), stored(row))
                written.append(stored(row))
        return Commit(written, before, self.rows())

    def delete(self, places: Iterable[Place]) -> Commit:
        before = self.rows()
        for place in places:
            if place in before:
                self._apply(place, Version(None, None))
        return Commit([], before, self.rows())

    def update(self, places: Iterable[Place], values: Row) -> Commit:
        before = self.rows()
        written = []
        for place in places:
            row = {**before[place], **values}
            if self._apply(place, Version(row["ts"], row)):
                written.append(row)
        return Commit(written, before, self.rows())

    def overwrite(self, rows: list[Row], partitions: Iterable[str] | None) -> Commit:
        """All rows of some partitions, or of all, go; the given ones come."""
        before = self.rows()
        gone = {p for p in self.records if partitions is None or p[0] in set(partitions)}
        for place in gone:
            del self.records[place]
        self.taken = {b for b in self.taken if partitions is not None and b[0] not in set(partitions)}
        for row in rows:
            self._place(place_of(row), stored(row))
        return Commit([stored(row) for row in rows], before, self.rows(), gone & before.keys())


def place_of(row: Row) -> Place:
    return row["city"], row["id"]


def stored(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "_hoodie_is_deleted"}


def changes(commit: Commit) -> list[tuple[str, Row | None, Row | None]]:
    """What a reader of changes should be told, but for updates that changed nothing."""
    found: list[tuple[str, Row | None, Row | None]] = []
    for place in commit.before.keys() | commit.after.keys():
        old, new = commit.before.get(place), commit.after.get(place)
        if place in commit.replaced:
            found.append(("d", old, None))
            old = None
        if old is None and new is not None:
            # A late record after a delete in the log brings the base row back (facts 15.1): no commit wrote that one.
            if new in commit.written:
                found.append(("i", None, new))
        elif old is not None and new is None:
            found.append(("d", old, None))
        elif old is not None and old != new:
            found.append(("u", old, new))
    return found
