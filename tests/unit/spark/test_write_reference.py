"""The reference of write options: complete, and what the docs show."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.hudi.write.options import DOCUMENTED, WriteOptions
from headwater.spark.write.reference import within
from headwater.spark.write.save_options import PLAIN_NAMES

PAGE = Path(__file__).parents[3] / "docs" / "writing.md"


def test_every_option_is_documented_and_read() -> None:
    given = {"hoodie.index.type": "bloom", "hoodie.index.bucket.engine": "SIMPLE"}
    words = {"hoodie.logfile.data.block.format": "avro", "hoodie.parquet.compression.codec": "zstd"}
    for name in DOCUMENTED:
        values = ("true", "4")
        accepted = [text for text in (given.get(name) or words.get(name), *values) if text and _takes(name, text)]
        assert accepted, name
    assert set(PLAIN_NAMES.values()) <= DOCUMENTED.keys()


def _takes(name: str, text: str) -> bool:
    try:
        WriteOptions().with_values({name: text})
    except HeadwaterError:
        return False
    return True


def test_reference_in_the_docs_is_current() -> None:
    page = PAGE.read_text("utf-8")
    assert within(page) == page, "run: python -m headwater.spark.write.reference docs/writing.md"
