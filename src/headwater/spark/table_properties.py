"""What `TBLPROPERTIES` may say of a new table.

>>> given, stored = definition({"primaryKey": "id", "type": "mor", "headwater.read.threads": "2"}, ["city"])
>>> given.key, given.kind, given.partition_by, stored
(('id',), 'mor', ('city',), {'headwater.read.threads': '2'})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.errors import InvalidArgument
from headwater.spark.shown_properties import COMMENT
from headwater.spark.write.save_options import SaveOptions, parse


def definition(
    properties: Mapping[str, str], partition_by: Sequence[str], options: Mapping[str, str] | None = None
) -> tuple[SaveOptions, dict[str, str]]:
    """What a new table is to be, by the names that `save` knows, and what is only kept for it.

    `options` are those of the write that fills the table; they may name the key too.
    """
    stored = {name: value for name, value in properties.items() if name.startswith("headwater.")}
    if properties.get("comment"):
        stored[COMMENT] = properties["comment"]
    said = {name: value for name, value in properties.items() if name not in stored and name != "comment"}
    given = parse({**said, **(options or {})})
    columns = tuple(partition_by)
    if not columns:
        return given, stored
    if given.partition_by is None:
        return replace(given, partition_by=columns), stored
    if tuple(name.partition(":")[0] for name in given.partition_by) != columns:
        raise InvalidArgument(
            f"PARTITIONED BY ({', '.join(columns)}) and the property partition-by={','.join(given.partition_by)} say "
            "different things; leave one out"
        )
    return given, stored
