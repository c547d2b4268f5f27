"""Records that Hudi wrote, read and written again: the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.fixtures.suites import table

from headwater.hudi.hfile import BytesSource, HFileReader
from headwater.hudi.log import BlockType, scan_blocks
from headwater.hudi.metadata_table import records
from headwater.hudi.metadata_table.columns import record_locations
from headwater.hudi.metadata_table.encoding import encode, instant_millis, location_value, place_values
from headwater.hudi.metadata_table.record_schema import record_schema, same_bytes
from headwater.storage import Storage

TABLES = {
    6: ("idx_mdt_all_cow_v6_0150", "idx_rli_moves_mor_v6_0150", "idx_stats_cow_v6_0150"),
    8: ("idx_stats_cow_v8_102", "idx_sec_updates_mor_v8_102"),
    9: ("idx_stats_mor_v9_120", "idx_stats_mor_v9_111", "del_part_mdt_mor_v9_120"),
}
EVERY = [(version, name) for version, names in TABLES.items() for name in names]


def written_records(path: Path) -> Iterator[tuple[str, bytes, bytes, str]]:
    """Partition, key, value and schema of every record in a log."""
    storage = Storage.at(path / ".hoodie" / "metadata")
    for file in storage.list("", recursive=True):
        if ".log." in file.name and not file.path.startswith(".hoodie"):
            for block in scan_blocks(storage, file.path):
                if block.type is BlockType.HFILE_DATA:
                    assert block.schema is not None
                    for key, value in HFileReader(BytesSource(block.content()), file.path).scan():
                        yield file.path.split("/")[0], key, value, block.schema


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_schema_of_a_version_gives_the_bytes_of_its_releases(version: int, name: str) -> None:
    schemas = {schema for *_, schema in written_records(table("generated", name).path())}
    assert schemas
    assert all(same_bytes(schema, record_schema(version)) for schema in schemas)


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_records_of_every_index_are_written_as_they_were_read(version: int, name: str) -> None:
    count = 0
    schema = record_schema(version)
    for _, key, value, _ in written_records(table("generated", name).path()):
        record = records.raw_record(key.decode(), value, records.parsed_schema(schema))
        assert encode(record, schema) == value
        count += 1
    assert count > 10


@pytest.mark.parametrize(("version", "name"), [e for e in EVERY if "rli" in e[1] or "all" in e[1] or "sec" in e[1]])
def test_places_of_records_are_written_as_hudi_writes_them(version: int, name: str) -> None:
    found = [r for r in written_records(table("generated", name).path()) if r[0] == "record_index"]
    assert found
    keys = pa.array([key for _, key, _, _ in found], pa.binary())
    values = pa.array([value for _, _, value, _ in found], pa.binary())
    schema = record_schema(version)
    assert place_values(record_locations(keys, values, schema), version).to_pylist() == values.to_pylist()
    for _, key, value, _ in found:
        place = records.decode_record(key.decode(), value, records.parsed_schema(schema))
        assert isinstance(place, records.RecordLocation)
        assert location_value(place.partition, place.file_id, place.instant_millis, version) == value


def test_file_id_that_is_no_uuid_is_kept_as_a_text() -> None:
    schema = records.parsed_schema(record_schema(9))
    for file_id in (
        "00000003-bucket",
        "7615f770-1c61-323c-bfc4-d5a37c3f2e39-007",
        "7615F770-1C61-323C-BFC4-D5A37C3F2E39-0",
    ):
        found = records.decode_record("k", location_value("p", file_id, 1, 9), schema)
        assert isinstance(found, records.RecordLocation)
        assert found.file_id == file_id
    plain = records.decode_record("k", location_value("", "7615f770-1c61-323c-bfc4-d5a37c3f2e39", 1, 9), schema)
    assert isinstance(plain, records.RecordLocation)
    assert plain.file_id == "7615f770-1c61-323c-bfc4-d5a37c3f2e39"


def test_instant_without_milliseconds_counts_to_the_end_of_its_second() -> None:
    assert instant_millis("20260101000000", in_utc=True) % 1000 == 999
