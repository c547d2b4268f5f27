"""`hoodie.properties`: Java's text format, the typed configuration and the gate that refuses what we do not know.

Facts 1.2–1.4.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headwater.errors import CorruptFile, InvalidTableConfig, TableNotFound, UnsupportedTable
from headwater.storage import Storage

SUPPORTED_VERSIONS = (6, 8, 9)
META_FOLDER = ".hoodie"
PROPERTIES_FILE = f"{META_FOLDER}/hoodie.properties"
BACKUP_FILE = f"{META_FOLDER}/hoodie.properties.backup"
BASE_FORMATS = ("PARQUET", "ORC", "HFILE", "LANCE")

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_java_properties(text: str) -> dict[str, str]:
    r"""Java's properties text: comments, continued lines, escapes, `=`, `:` or blank between key and value.

    >>> parse_java_properties("#c\na.b=x\\:y\nlong=1,\\\n   2\n")
    {'a.b': 'x:y', 'long': '1,2'}
    """
    found: dict[str, str] = {}
    pending = ""
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(" \t\f")
        if not pending and line[:1] in ("#", "!", ""):
            continue
        tail = len(line) - len(line.rstrip("\\"))
        if tail % 2:
            pending += line[:-1]
            continue
        _add_property(pending + line, found)
        pending = ""
    if pending:
        _add_property(pending, found)
    return found


def _add_property(line: str, found: dict[str, str]) -> None:
    end, size = 0, len(line)
    while end < size and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    found[_unescape(line[:end])] = _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    found = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.?))", plain, text, flags=re.DOTALL)
    # Java's letters are 16 bits wide: one beyond them is two escapes, and one letter here.
    return found.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


class TableType(Enum):
    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(Enum):
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class PartialUpdateMode(Enum):
    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"
    KEEP_VALUES = "KEEP_VALUES"


class CdcLogging(Enum):
    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"


class KeyGenerator(Enum):
    """How keys and partition paths were made, as far as a reader must know."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    NON_PARTITION = "NON_PARTITION"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    AUTO_RECORD = "AUTO_RECORD"
    METADATA_TABLE = "HOODIE_TABLE_METADATA"
    OTHER = "USER_PROVIDED"


_KEY_GENERATOR_CLASSES = {
    "SimpleKeyGenerator": KeyGenerator.SIMPLE,
    "SimpleAvroKeyGenerator": KeyGenerator.SIMPLE,
    "ComplexKeyGenerator": KeyGenerator.COMPLEX,
    "ComplexAvroKeyGenerator": KeyGenerator.COMPLEX,
    "TimestampBasedKeyGenerator": KeyGenerator.TIMESTAMP,
    "TimestampBasedAvroKeyGenerator": KeyGenerator.TIMESTAMP,
    "CustomKeyGenerator": KeyGenerator.CUSTOM,
    "CustomAvroKeyGenerator": KeyGenerator.CUSTOM,
    "NonpartitionedKeyGenerator": KeyGenerator.NON_PARTITION,
    "NonpartitionedAvroKeyGenerator": KeyGenerator.NON_PARTITION,
    "GlobalDeleteKeyGenerator": KeyGenerator.GLOBAL_DELETE,
    "GlobalAvroDeleteKeyGenerator": KeyGenerator.GLOBAL_DELETE,
    "HoodieTableMetadataKeyGenerator": KeyGenerator.METADATA_TABLE,
}


@dataclass(frozen=True, slots=True)
class TableConfig:
    """What `hoodie.properties` says, typed. `properties` keeps every key as it stands in the file."""

    properties: Mapping[str, str]
    name: str
    version: int
    table_type: TableType
    layout: int
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    partition_kinds: tuple[str | None, ...]
    """With a custom key generator, SIMPLE or TIMESTAMP for each partition field, where it is written down."""
    ordering_fields: tuple[str, ...]
    key_generator: KeyGenerator
    base_format: str
    populate_meta_fields: bool
    hive_style: bool
    url_encoded: bool
    drop_partition_columns: bool
    cdc_enabled: bool
    cdc_logging: CdcLogging
    timeline_in_utc: bool
    metadata_partitions: tuple[str, ...]

    @property
    def is_merge_on_read(self) -> bool:
        return self.table_type is TableType.MERGE_ON_READ

    @property
    def names_key_generator(self) -> bool:
        """Whether the table says which key generator made its paths."""
        return bool(
            self.properties.get("hoodie.table.keygenerator.class")
            or self.properties.get("hoodie.table.keygenerator.type")
        )

    @property
    def is_metadata_table(self) -> bool:
        return self.key_generator is KeyGenerator.METADATA_TABLE

    @property
    def timeline_folder(self) -> str:
        if self.layout < 2:
            return META_FOLDER
        return f"{META_FOLDER}/{self.properties.get('hoodie.timeline.path') or 'timeline'}"

    @property
    def history_folder(self) -> str:
        return f"{self.timeline_folder}/{self.properties.get('hoodie.timeline.history.path') or 'history'}"

    @property
    def archive_folder(self) -> str:
        return f"{META_FOLDER}/{self.properties.get('hoodie.archivelog.folder') or 'archived'}"

    @property
    def create_schema(self) -> str | None:
        return self.properties.get("hoodie.table.create.schema") or None

    @property
    def payload_class(self) -> str | None:
        return self.properties.get("hoodie.compaction.payload.class") or None

    @property
    def merge_mode_declared(self) -> str | None:
        return self.properties.get("hoodie.record.merge.mode") or None

    @property
    def merge_strategy(self) -> str | None:
        return (
            self.properties.get("hoodie.record.merge.strategy.id")
            or self.properties.get("hoodie.compaction.record.merger.strategy")
            or None
        )

    @property
    def partial_update_mode(self) -> PartialUpdateMode | None:
        text = self.properties.get("hoodie.table.partial.update.mode") or "NONE"
        return None if text == "NONE" else PartialUpdateMode(text)

    def merge_property(self, key: str) -> str | None:
        """A property that a writer left for readers' merging; old releases wrote it without the prefix."""
        return self.properties.get(f"hoodie.record.merge.property.{key}") or self.properties.get(key) or None


def load_config(storage: Storage) -> TableConfig:
    """Read and check a table's configuration; falls back to the backup while an update is half done."""
    found = None
    for path in (PROPERTIES_FILE, BACKUP_FILE):
        entry = storage.find(path)
        if entry is None or entry.is_directory:
            continue
        found = path
        text = _decode(storage, path)
        values = parse_java_properties(text)
        is_whole = "hoodie.table.name" in values and _checksum_problem(values) is None
        if is_whole or path == BACKUP_FILE or storage.find(BACKUP_FILE) is None:
            return check_config(values, storage.describe(path))
    if found is None:
        folder = storage.find("")
        why = "there is no such folder" if folder is None else f"it has no {PROPERTIES_FILE}"
        raise TableNotFound(f"{storage.uri}: no Hudi table here: {why}. Give the table's base folder.")
    raise InvalidTableConfig(f"{storage.describe(found)}: holds no hoodie.table.name; restore it from a backup")


def _decode(storage: Storage, path: str) -> str:
    data = storage.read_bytes(path)
    if len(data) > 16 << 20:
        raise CorruptFile(
            f"{storage.describe(path)}: {len(data)} bytes is no properties file; restore it from a backup"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _checksum_problem(values: Mapping[str, str]) -> str | None:
    """The checksum is a CRC32 of the database's and the table's name; it covers nothing else (facts 1.2)."""
    stored = values.get("hoodie.table.checksum")
    database, name = values.get("hoodie.database.name", ""), values.get("hoodie.table.name", "")
    due = zlib.crc32(f"{database}.{name}".encode("utf-8", "surrogatepass"))
    if stored is None or stored.strip() == str(due):
        return None
    return (
        f"hoodie.table.checksum={stored[:80]} does not fit hoodie.database.name={database} and "
        f"hoodie.table.name={name}: the file is damaged or was edited; restore it, or set the checksum to {due} if the "
        "names are right"
    )


def check_config(values: Mapping[str, str], where: str) -> TableConfig:
    """The one gate: every value that cannot be is named, all of them in one message."""
    problems: list[str] = []
    version = _int(values, "hoodie.table.version", problems)
    if version is not None and version not in SUPPORTED_VERSIONS:
        raise UnsupportedTable(_version_message(where, version))
    name = values.get("hoodie.table.name", "")
    if not name:
        problems.append("hoodie.table.name is missing")
    elif (mismatch := _checksum_problem(values)) is not None:
        problems.append(mismatch)
    table_type = _enum(values, "hoodie.table.type", TableType, "COPY_ON_WRITE", problems)
    layout = _int(values, "hoodie.timeline.layout.version", problems, default=1 if version == 6 else 2)
    if layout not in (None, 1, 2):
        problems.append(f"hoodie.timeline.layout.version={layout} (known: 1, 2)")
    base_format = (
        values.get("hoodie.table.base.file.format") or values.get("hoodie.table.ro.file.format") or "PARQUET"
    ).upper()
    if base_format not in BASE_FORMATS:
        problems.append(f"hoodie.table.base.file.format={base_format} (known: {', '.join(BASE_FORMATS)})")
    log_format = values.get("hoodie.table.log.file.format") or "HOODIE_LOG"
    if log_format.upper() != "HOODIE_LOG":
        problems.append(f"hoodie.table.log.file.format={log_format} (known: HOODIE_LOG)")
    declared = values.get("hoodie.record.merge.mode")
    if declared and declared not in MergeMode.__members__:
        problems.append(f"hoodie.record.merge.mode={declared} (known: {', '.join(MergeMode.__members__)})")
    partial = values.get("hoodie.table.partial.update.mode")
    if partial and partial != "NONE" and partial not in PartialUpdateMode.__members__:
        problems.append(
            f"hoodie.table.partial.update.mode={partial} (known: {', '.join(PartialUpdateMode.__members__)})"
        )
    cdc_text = (values.get("hoodie.table.cdc.supplemental.logging.mode") or "DATA_BEFORE_AFTER").upper()
    cdc = CdcLogging.__members__.get({"CDC_OP_KEY": "OP_KEY_ONLY", "OP_KEY": "OP_KEY_ONLY"}.get(cdc_text, cdc_text))
    if cdc is None:
        problems.append(
            f"hoodie.table.cdc.supplemental.logging.mode={cdc_text} (known: {', '.join(CdcLogging.__members__)})"
        )
    zone = (values.get("hoodie.table.timeline.timezone") or "LOCAL").upper()
    if zone not in ("LOCAL", "UTC"):
        problems.append(f"hoodie.table.timeline.timezone={zone} (known: LOCAL, UTC)")
    flags = {
        key: _bool(values, key, default, problems)
        for key, default in (
            ("hoodie.populate.meta.fields", True),
            ("hoodie.datasource.write.hive_style_partitioning", False),
            ("hoodie.datasource.write.partitionpath.urlencode", False),
            ("hoodie.datasource.write.drop.partition.columns", False),
            ("hoodie.table.cdc.enabled", False),
        )
    }
    if problems or version is None or layout is None or table_type is None or cdc is None:
        shown = "; ".join(problem if len(problem) <= 400 else f"{problem[:400]}…" for problem in problems)
        raise InvalidTableConfig(f"{where}: cannot be used: {shown}. Correct the file.")
    fields, kinds = _partition_fields(values)
    ordering = values.get("hoodie.table.ordering.fields") or values.get("hoodie.table.precombine.field") or ""
    return TableConfig(
        properties=dict(values),
        name=name,
        version=version,
        table_type=table_type,
        layout=layout,
        record_key_fields=_csv(values.get("hoodie.table.recordkey.fields")),
        partition_fields=fields,
        partition_kinds=kinds,
        ordering_fields=_csv(ordering),
        key_generator=_key_generator(values, fields),
        base_format=base_format,
        populate_meta_fields=flags["hoodie.populate.meta.fields"],
        hive_style=flags["hoodie.datasource.write.hive_style_partitioning"],
        url_encoded=flags["hoodie.datasource.write.partitionpath.urlencode"],
        drop_partition_columns=flags["hoodie.datasource.write.drop.partition.columns"],
        cdc_enabled=flags["hoodie.table.cdc.enabled"],
        cdc_logging=cdc,
        timeline_in_utc=zone == "UTC",
        metadata_partitions=_csv(values.get("hoodie.table.metadata.partitions")),
    )


def _version_message(where: str, version: int) -> str:
    known = ", ".join(map(str, SUPPORTED_VERSIONS))
    if version < 6:
        todo = "upgrade the table to version 6 with a 0.14 or 0.15 release of Apache Hudi"
    elif version == 7:
        todo = "version 7 marks a table in mid-upgrade; finish the upgrade to 8 with Apache Hudi 1.x"
    else:
        todo = "upgrade headwater, or downgrade the table to version 9 with Apache Hudi"
    return f"{where}: hoodie.table.version={version}; this reader knows versions {known}: {todo}."


def _csv(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _partition_fields(values: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    names: list[str] = []
    kinds: list[str | None] = []
    for item in _csv(values.get("hoodie.table.partition.fields")):
        field, _, kind = item.partition(":")
        names.append(field)
        kinds.append(kind.upper() or None)
    return tuple(names), tuple(kinds)


def _key_generator(values: Mapping[str, str], partition_fields: tuple[str, ...]) -> KeyGenerator:
    class_name = (values.get("hoodie.table.keygenerator.class") or "").rsplit(".", 1)[-1]
    if class_name:
        return _KEY_GENERATOR_CLASSES.get(class_name, KeyGenerator.OTHER)
    kind = (values.get("hoodie.table.keygenerator.type") or "").upper().removesuffix("_AVRO")
    for known in KeyGenerator:
        if kind == known.value:
            return known
    if kind:
        return KeyGenerator.OTHER
    if not partition_fields:
        return KeyGenerator.NON_PARTITION
    single = len(partition_fields) == 1 and len(_csv(values.get("hoodie.table.recordkey.fields"))) == 1
    return KeyGenerator.SIMPLE if single else KeyGenerator.COMPLEX


def _int(values: Mapping[str, str], key: str, problems: list[str], default: int | None = None) -> int | None:
    text = values.get(key)
    if text is None:
        if default is None:
            problems.append(f"{key} is missing")
        return default
    if not re.fullmatch(r"\d{1,9}", text.strip()):
        problems.append(f"{key}={text!r} is not a whole number")
        return None
    return int(text)


def _bool(values: Mapping[str, str], key: str, default: bool, problems: list[str]) -> bool:
    text = (values.get(key) or str(default)).strip().lower()
    if text not in ("true", "false"):
        problems.append(f"{key}={values[key]!r} (known: true, false)")
    return text == "true"


def _enum(
    values: Mapping[str, str], key: str, kind: type[TableType], default: str, problems: list[str]
) -> TableType | None:
    text = values.get(key) or default
    if text not in kind.__members__:
        problems.append(f"{key}={text} (known: {', '.join(kind.__members__)})")
        return None
    return kind(text)
