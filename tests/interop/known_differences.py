"""Reads where Headwater does not give what Hudi gives, each with the reason. Everything else that differs is a bug.

Left out of the stories instead, because whole columns or tables would differ:

- partition values that a path cannot hold (null, '', 'a=b', '%20'; docs/reader-spec.md, last part), and filters on the
  time that a path is made of, which Hudi takes from the path;
- null ordering values, which Hudi cannot read;
- texts for ordering where log blocks are Parquet: 1.2.0 keeps a pointer into a buffer that it fills anew with each
  record, and compares whatever is there by then (v1 in the base file, v10 in the log: v1 stays).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Story = Mapping[str, Any]
Read = Mapping[str, Any]


@dataclass(frozen=True)
class Known:
    """A kind of difference: when it applies to a read, and to the message that says what differs."""

    reason: str
    applies: Callable[[Story, Read, str], bool]


def _cleans(story: Story) -> bool:
    return any(step["options"].get("hoodie.clean.automatic") == "true" for step in story["steps"])


def _newest_files(story: Story, read: Read, message: str) -> bool:
    more = "rows expected" in message and "read: not expected" in message
    return read["mode"] == "incremental" and _cleans(story) and more


def _keys_in_parquet_blocks(story: Story, read: Read, message: str) -> bool:
    keys = story["options"].get("hoodie.datasource.write.recordkey.field", "").split(",")
    in_parquet = story["options"].get("hoodie.logfile.data.block.format") == "parquet"
    return read["mode"] == "filter" and in_parquet and any(key in read["opts"]["filter"] for key in keys)


def _old_deletes(story: Story, read: Read, message: str) -> bool:
    return read["reader"] == "0.15.0" and story["mor"] and "`_hoodie_is_deleted`" in story["steps"][0]["schema"]


def _cleaned_changes(story: Story, read: Read, message: str) -> bool:
    return read["mode"] == "cdc" and message.startswith("InstantNotFound") and _cleans(story)


def _late_delete_among_changes(story: Story, read: Read, message: str) -> bool:
    deletable = "`_hoodie_is_deleted`" in story["steps"][0]["schema"]
    return read["mode"] == "cdc" and story["mor"] and deletable and 'not read: {"op": "d"' in message


def _stays_in_its_partition(story: Story, read: Read, message: str) -> bool:
    stays = story["options"].get("hoodie.simple.index.update.partition.path") == "false"
    return read["mode"] == "cdc" and stays and "'part':" in message


def _replaced_later(story: Story, read: Read, message: str) -> bool:
    on_read = story["options"].get("hoodie.schema.on.read.enable") == "true"
    more = "rows expected" in message and "read: not expected" in message
    return read["reader"] == "0.15.0" and read["mode"] == "time_travel" and on_read and not story["mor"] and more


def _time_of_the_path(story: Story, read: Read, message: str) -> bool:
    return (
        read["reader"] == "1.0.2"
        and any(f" {name} is " in message for name in story["loose"])
        and (message.endswith("expected None"))
    )


KNOWN: tuple[Known, ...] = (
    Known(
        "1.2.0 cannot read this, and 1.0.2 gives null for a time that the path is made of in some modes, in others the "
        "stored value",
        _time_of_the_path,
    ),
    Known(
        "1.2.0 cannot read this, and where columns were altered 0.15.0 leaves out file groups that were replaced after "
        "the instant, though its file index lists them and its read without that index has their rows",
        _replaced_later,
    ),
    Known(
        "Hudi reports a delete that loses by its ordering value, though its own time travel still has the row",
        _late_delete_among_changes,
    ),
    Known(
        "a global index keeps a record in its old partition: Hudi's snapshots give the path's value, as we do, "
        "its changes the stored one",
        _stays_in_its_partition,
    ),
    Known(
        "Hudi leaves out deletes of replaced file groups once their files were cleaned; we refuse (reader-spec R10)",
        _cleaned_changes,
    ),
    Known(
        "where files of the range were cleaned, Hudi reads the newest ones and leaves out what changed since, also "
        "when the old files are still there (facts 15.10, reader-spec R10)",
        _newest_files,
    ),
    Known(
        "Hudi 1.1.1 and 1.2.0 push filters on keys into Parquet log blocks and then pair the records that are left "
        "with the wrong positions: its own snapshot has other rows",
        _keys_in_parquet_blocks,
    ),
    Known(
        "1.2.0 cannot read this, and in 0.15.0 a late delete wins whatever its ordering value (facts 15.1)",
        _old_deletes,
    ),
)


def known_difference(story: Story, read: Read, message: str) -> str | None:
    """Why this difference is not a bug of ours, if it is none."""
    return next((known.reason for known in KNOWN if known.applies(story, read, message)), None)
