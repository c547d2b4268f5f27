"""Markers: names of files before they are made."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.hudi.properties import check_config
from headwater.hudi.write.markers import Marker, delete_markers, read_markers, write_markers
from headwater.storage import Storage

LOG = ".f1-0_20260101000000000.log.1_0-0-0"


@pytest.mark.parametrize(("version", "kind"), [(6, "APPEND"), (8, "CREATE"), (9, "CREATE")])
def test_a_log_file_is_marked_as_hudi_of_that_version_does(tmp_path: Path, version: int, kind: str) -> None:
    storage = Storage.at(tmp_path)
    config = check_config({"hoodie.table.name": "t", "hoodie.table.version": str(version)}, "")
    write_markers(storage, config, "001", "a=1/b=2", [LOG], "APPEND")
    assert (tmp_path / f".hoodie/.temp/001/a=1/b=2/{LOG}.marker.{kind}").is_file()
    assert read_markers(storage, "001") == [Marker("a=1/b=2", LOG, kind)]


def test_markers_of_hudis_timeline_server_are_read(tmp_path: Path) -> None:
    folder = tmp_path / ".hoodie/.temp/001"
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_text("city=sf/f_0-1-2_001.parquet.marker.CREATE\n")
    (folder / "MARKERS1").write_text("g_0-1-2_001.parquet.marker.MERGE\ncity=la/h_0_001.parquet.marker.CREATE\n")
    found = read_markers(Storage.at(tmp_path), "001")
    assert found == [
        Marker("", "g_0-1-2_001.parquet", "MERGE"),
        Marker("city=la", "h_0_001.parquet", "CREATE"),
        Marker("city=sf", "f_0-1-2_001.parquet", "CREATE"),
    ]


def test_no_folder_is_not_an_empty_one(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    assert read_markers(storage, "001") is None
    storage.make_folder(".hoodie/.temp/001")
    assert read_markers(storage, "001") == []
    delete_markers(storage, "001")
    assert read_markers(storage, "001") is None
