"""Creating a table: its properties and folders, as Hudi of that table version makes them (facts 1.3–1.5)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa

from headwater.errors import AlreadyThere, InvalidArgument, StorageError, TableExists, TableLocked
from headwater.hudi.avro_schema import from_arrow
from headwater.hudi.properties import META_FOLDER, PROPERTIES_FILE, KeyGenerator, check_config
from headwater.hudi.schema import META_SCHEMA
from headwater.hudi.table import HudiTable
from headwater.hudi.write import lock
from headwater.hudi.write.metadata_hook import METADATA_TABLE
from headwater.hudi.write.properties_file import checksum, render_table_properties
from headwater.hudi.write.timeline_files import settle
from headwater.storage import FileEntry, Storage
from headwater.storage.writing import LEFT_BEHIND

VERSIONS = (6, 8, 9)
MERGE_MODES = {"event_time": "EVENT_TIME_ORDERING", "commit_time": "COMMIT_TIME_ORDERING"}

_LOG = logging.getLogger("headwater")
_STRATEGIES = {
    "event_time": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "commit_time": "ce9acb64-bde0-424c-9b91-f6ebba25356d",
}
_PAYLOADS = {
    "event_time": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "commit_time": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
# The one strategy that releases before 1.0 know, whatever the payload does.
_OLD_STRATEGY = _STRATEGIES["event_time"]
_GENERATOR_CLASSES = {
    KeyGenerator.SIMPLE: "SimpleKeyGenerator",
    KeyGenerator.COMPLEX: "ComplexKeyGenerator",
    KeyGenerator.TIMESTAMP: "TimestampBasedKeyGenerator",
    KeyGenerator.CUSTOM: "CustomKeyGenerator",
    KeyGenerator.NON_PARTITION: "NonpartitionedKeyGenerator",
}
PARTITION_KINDS = "hoodie.datasource.write.partitionpath.field"
"""Version 6 keeps only the names of a custom key generator's fields; under this key we keep their kinds as well."""
_FOLDERS = (".aux/.bootstrap/.partitions", ".aux/.bootstrap/.fileids", ".schema", ".temp")


def create_table(
    storage: Storage,
    *,
    name: str,
    schema: pa.Schema,
    record_key: Sequence[str],
    ordering: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    kind: Literal["cow", "mor"] = "cow",
    version: int = 9,
    merge_mode: str | None = None,
    key_generator: str | None = None,
    hive_style: bool = False,
    url_encode: bool = False,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Make an empty table. Everything is checked before the first file is written.

    `partition_by` may give the kind of a field for a custom key generator: `["city:SIMPLE", "ts:TIMESTAMP"]`. No record
    key means keys that each write makes up. `merge_mode` is by `ordering`, where there is any, unless given.

    A crash leaves folders without `hoodie.properties`: no table, and creating it again works. That file is made last,
    whole and only once: of two that create the same table, one gets `TableExists`.

    >>> import tempfile
    >>> from headwater.hudi.properties import load_config
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string())])
    >>> create_table(storage, name="trips", schema=schema, record_key=["id"], ordering=["ts"], partition_by=["city"])
    >>> config = load_config(storage)
    >>> config.version, config.key_generator.value, config.properties["hoodie.record.merge.mode"]
    (9, 'SIMPLE', 'EVENT_TIME_ORDERING')
    """
    values = table_properties(
        name=name,
        schema=schema,
        record_key=record_key,
        ordering=ordering,
        partition_by=partition_by,
        kind=kind,
        version=version,
        merge_mode=merge_mode,
        key_generator=key_generator,
        hive_style=hive_style,
        url_encode=url_encode,
        properties=properties,
    )
    _refuse_what_is_there(storage)
    folders = (*_FOLDERS, "archived") if version == 6 else (*_FOLDERS, "timeline/history")
    for folder in folders:
        storage.make_folder(f"{META_FOLDER}/{folder}")
    try:
        settle(storage, PROPERTIES_FILE, render_table_properties(values), others_may_write_the_same=True)
    except AlreadyThere as error:
        raise TableExists(
            f"{storage.uri}: another writer created a table here at this moment; open that one"
        ) from error


def prepare_indexes(storage: Storage) -> None:
    """Make the indexes that a new table's properties name. What fails here, or a crash, leaves to the first write.

    >>> import tempfile
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> create_table(storage, name="t", schema=pa.schema([("id", pa.string())]), record_key=["id"],
    ...              properties={"hoodie.index.type": "RECORD_INDEX"})
    >>> prepare_indexes(storage)
    >>> HudiTable.open(storage).config.metadata_partitions
    ('files', 'record_index')
    """
    table = HudiTable.open(storage)
    try:
        with lock.locked(storage, wait=0):
            METADATA_TABLE.prepare(table)
    except (StorageError, TableLocked) as error:
        _LOG.warning("%s: the first write makes its indexes: %s", storage.uri, error)


def table_properties(
    *,
    name: str,
    schema: pa.Schema,
    record_key: Sequence[str],
    ordering: Sequence[str],
    partition_by: Sequence[str],
    kind: str,
    version: int,
    merge_mode: str | None,
    key_generator: str | None,
    hive_style: bool,
    url_encode: bool,
    properties: Mapping[str, str] | None,
) -> dict[str, str]:
    """What `hoodie.properties` of a new table holds; refuses what cannot be. See `create_table`."""
    if version not in VERSIONS:
        raise InvalidArgument(f"version={version!r}: tables of versions {', '.join(map(str, VERSIONS))} can be created")
    if kind not in ("cow", "mor"):
        raise InvalidArgument(f"kind={kind!r}: give 'cow' (copy on write) or 'mor' (merge on read)")
    if not name or not name.isprintable() or "/" in name:
        raise InvalidArgument(f"name={name!r} cannot be a table's name; give letters, digits and underscores")
    fields = [item.partition(":")[0] for item in partition_by]
    _check_columns(schema, record_key, ordering, fields)
    mode = merge_mode or ("event_time" if ordering else "commit_time")
    if mode not in MERGE_MODES:
        raise InvalidArgument(f"merge_mode={mode!r}: give one of {', '.join(MERGE_MODES)}")
    if mode == "event_time" and not ordering:
        raise InvalidArgument("merge_mode='event_time' needs ordering columns: give ordering=[…], or 'commit_time'")
    if version < 9 and len(ordering) > 1:
        raise InvalidArgument(f"ordering={list(ordering)}: version {version} has one ordering column; use version 9")
    generator = _generator(key_generator, record_key, partition_by)
    given = {**(properties or {})}
    if generator in (KeyGenerator.TIMESTAMP, KeyGenerator.CUSTOM):
        _check_timestamps(generator, partition_by, given)
    values = {
        "hoodie.table.name": name,
        "hoodie.table.type": "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE",
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": "1" if version == 6 else "2",
        "hoodie.table.create.schema": schema_text(schema, name),
        "hoodie.table.partition.fields": ",".join(fields if version == 6 else _with_kinds(generator, partition_by)),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.timeline.timezone": "LOCAL",
        "hoodie.populate.meta.fields": "true",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(url_encode).lower(),
        "hoodie.table.cdc.enabled": "false",
    }
    if record_key:
        values["hoodie.table.recordkey.fields"] = ",".join(record_key)
    if ordering:
        values["hoodie.table.ordering.fields" if version >= 9 else "hoodie.table.precombine.field"] = ",".join(ordering)
    if version == 6:
        values |= {
            "hoodie.database.name": "",
            "hoodie.archivelog.folder": "archived",
            "hoodie.table.keygenerator.class": f"org.apache.hudi.keygen.{_GENERATOR_CLASSES[generator]}",
            "hoodie.compaction.payload.class": _PAYLOADS[mode],
            "hoodie.compaction.record.merger.strategy": _OLD_STRATEGY,
        }
        if generator is KeyGenerator.CUSTOM:
            values[PARTITION_KINDS] = ",".join(_with_kinds(generator, partition_by))
    else:
        values |= {
            "hoodie.archivelog.folder": "history",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.table.initial.version": str(version),
            "hoodie.table.keygenerator.type": generator.value,
            "hoodie.table.multiple.base.file.formats.enable": "false",
            "hoodie.record.merge.mode": MERGE_MODES[mode],
        }
    if version == 8:
        values |= {
            "hoodie.compaction.payload.class": _PAYLOADS[mode],
            "hoodie.record.merge.strategy.id": _STRATEGIES[mode],
        }
    if version == 9:
        values["hoodie.table.format"] = "native"
    clash = sorted(
        key for key in given if key in ("hoodie.table.name", "hoodie.table.version", "hoodie.table.checksum")
    )
    if clash:
        raise InvalidArgument(f"properties: {', '.join(clash)} cannot be given so; give name= and version=")
    values |= given
    checked = {**values, "hoodie.table.checksum": checksum(values.get("hoodie.database.name", ""), name)}
    check_config(checked, "properties of the new table")
    return values


def schema_text(schema: pa.Schema, table_name: str) -> str:
    """The Avro schema of a table's rows as Hudi names it, without meta columns.

    >>> schema_text(pa.schema([("id", pa.int32())]), "t")
    '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[{"name":"id","type":["null","int"],"default":null}]}'
    """
    safe = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in table_name)
    if safe[:1].isdigit():
        safe = f"_{safe}"
    rows = pa.schema([field for field in schema if field.name not in META_SCHEMA.names])
    return json.dumps(from_arrow(rows, name=f"{safe}_record", namespace=f"hoodie.{safe}"), separators=(",", ":"))


def _check_columns(
    schema: pa.Schema, record_key: Sequence[str], ordering: Sequence[str], partition_by: Sequence[str]
) -> None:
    if not len(schema):
        raise InvalidArgument("schema: a table needs at least one column")
    taken = [column for column in schema.names if column.lower() in META_SCHEMA.names]
    if taken:
        raise InvalidArgument(f"schema: {', '.join(taken)} is a name of Hudi's own columns; rename the column")
    folded = [column.lower() for column in schema.names]
    twice = sorted({column for column in schema.names if folded.count(column.lower()) > 1})
    if twice:
        raise InvalidArgument(f"schema: columns {', '.join(twice)} differ in case only; rename one")
    for role, columns in (("record_key", record_key), ("ordering", ordering), ("partition_by", partition_by)):
        if isinstance(columns, str):
            raise InvalidArgument(f"{role}={columns!r}: give a list of columns")
        if len(set(columns)) < len(columns):
            raise InvalidArgument(f"{role}={list(columns)}: a column stands there twice")
        for column in columns:
            dtype = _find(schema, column)
            if dtype is None:
                raise InvalidArgument(f"{role}: no column {column!r} in the schema; it has: {', '.join(schema.names)}")
            if pa.types.is_nested(dtype):
                raise InvalidArgument(f"{role}: column {column!r} is a {dtype}; give a column with a plain value")


def _find(schema: pa.Schema, path: str) -> pa.DataType | None:
    """The type of a column, or of a field within one, by its dotted path."""
    names = path.split(".")
    at = schema.get_field_index(path if path in schema.names else names[0])
    if at < 0:
        return None
    dtype = schema.field(at).type
    for name in [] if path in schema.names else names[1:]:
        if not pa.types.is_struct(dtype) or dtype.get_field_index(name) < 0:
            return None
        dtype = dtype.field(name).type
    return dtype


def _generator(given: str | None, record_key: Sequence[str], partition_by: Sequence[str]) -> KeyGenerator:
    if given is not None:
        text = given.rsplit(".", 1)[-1].removesuffix("KeyGenerator").removesuffix("Avro").upper().replace("-", "_")
        text = {"TIMESTAMPBASED": "TIMESTAMP", "NONPARTITIONED": "NON_PARTITION"}.get(text, text)
        found = next((known for known in _GENERATOR_CLASSES if known.value == text), None)
        if found is None:
            known = ", ".join(kind.value.lower() for kind in _GENERATOR_CLASSES)
            raise InvalidArgument(f"key_generator={given!r}: give one of {known}")
        if found is KeyGenerator.NON_PARTITION and partition_by:
            raise InvalidArgument("key_generator='non_partition' with partition_by: give one of the two")
        if found in (KeyGenerator.SIMPLE, KeyGenerator.TIMESTAMP) and (len(partition_by) != 1 or len(record_key) > 1):
            raise InvalidArgument(f"key_generator={given!r} takes one record key and one partition column")
        return found
    if any(":" in item for item in partition_by):
        return KeyGenerator.CUSTOM
    if not partition_by:
        return KeyGenerator.NON_PARTITION
    return KeyGenerator.SIMPLE if len(partition_by) == 1 and len(record_key) <= 1 else KeyGenerator.COMPLEX


def _with_kinds(generator: KeyGenerator, partition_by: Sequence[str]) -> list[str]:
    """A custom key generator's fields with their kinds, the others' without."""
    if generator is not KeyGenerator.CUSTOM:
        return [item.partition(":")[0] for item in partition_by]
    parts = (item.partition(":") for item in partition_by)
    return [f"{field}:{kind.upper() or 'SIMPLE'}" for field, _, kind in parts]


def _check_timestamps(generator: KeyGenerator, partition_by: Sequence[str], given: Mapping[str, str]) -> None:
    kinds = [item.partition(":")[2].upper() for item in _with_kinds(generator, partition_by)]
    unknown = sorted({kind for kind in kinds if kind not in ("", "SIMPLE", "TIMESTAMP")})
    if unknown:
        raise InvalidArgument(f"partition_by: kind {', '.join(unknown)} is not known; give SIMPLE or TIMESTAMP")
    needed = ("hoodie.keygen.timebased.timestamp.type", "hoodie.keygen.timebased.output.dateformat")
    missing = [key for key in needed if not given.get(key)]
    if missing and (generator is KeyGenerator.TIMESTAMP or "TIMESTAMP" in kinds):
        raise InvalidArgument(f"a timestamp key generator needs properties={{…}} with {' and '.join(missing)}")


def _refuse_what_is_there(storage: Storage) -> None:
    """An empty folder is fine, and one where creating a table died half way."""
    if storage.find(PROPERTIES_FILE) is not None:
        raise TableExists(f"{storage.uri}: there is a table already; open it, or create the new one elsewhere")
    root = storage.find("")
    if root is not None and not root.is_directory:
        raise TableExists(f"{storage.uri}: is a file; a table needs a folder of its own")
    for entry in storage.list(""):
        if entry.path == META_FOLDER and all(map(_is_of_no_table, storage.list(META_FOLDER, recursive=True))):
            continue
        raise TableExists(f"{storage.uri}: {_told(storage)}; create the table in an empty folder")


def _told(storage: Storage) -> str:
    """What a folder holds that is no table of Hudi, in words."""
    names = [entry.name for entry in storage.list("")]
    if "_delta_log" in names:
        return "the folder holds a table of Delta Lake"
    if "metadata" in names and any(entry.name.endswith(".metadata.json") for entry in storage.list("metadata")):
        return "the folder holds a table of Apache Iceberg"
    if META_FOLDER in names:
        return f"the folder holds files of a table in {META_FOLDER} and no {PROPERTIES_FILE}"
    return f"the folder holds {names[0]!r}, which is no Hudi table's"


def _is_of_no_table(entry: FileEntry) -> bool:
    return entry.is_directory or LEFT_BEHIND.match(entry.name) is not None
