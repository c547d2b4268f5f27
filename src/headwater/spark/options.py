"""Read options: every name that Spark users may give, its aliases, default and meaning, in one typed place.

An option of the read wins over the session's configuration, that over the table's properties, those over the default:

>>> given = parse_read_options({"as.of.instant": "20260101000000000"}, {"spark.headwater.read.split-size": "64m"})
>>> given.as_of, given.split_size, given.mode
('20260101000000000', 67108864, 'snapshot')
>>> parse_read_options({"splitt-size": "64m"})
Traceback (most recent call last):
headwater.errors.InvalidArgument: no read option 'splitt-size'; did you mean 'split-size'? ...
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from headwater.errors import InvalidArgument
from headwater.pipeline import parse_memory

SESSION_PREFIX = "spark.headwater.read."
PROPERTY_PREFIX = "headwater.read."


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a read was asked to do."""

    as_of: str | None = None
    mode: str = "snapshot"
    metadata: bool = True
    split_size: int | None = None
    open_cost: int | None = None
    memory: int | None = None
    threads: int | None = None
    reader: str = "native"
    merge_cache: bool = True
    push_down_aggregates: bool = True
    preserve_data_grouping: bool = False
    use_dsv2: bool = True


@dataclass(frozen=True, slots=True)
class Option:
    """One option: what it is called everywhere, what it takes, what it does."""

    field: str
    name: str
    values: str
    doc: str
    parse: Callable[[str], Any]
    aliases: tuple[str, ...] = ()
    """Other names, in Hudi's words or Spark's, accepted as options."""
    in_session: bool = True
    session_aliases: tuple[str, ...] = ()
    in_table: bool = False

    @property
    def session_name(self) -> str:
        return SESSION_PREFIX + self.name

    @property
    def property_name(self) -> str:
        return PROPERTY_PREFIX + self.name

    @property
    def default(self) -> Any:
        return next(f.default for f in fields(ReadOptions) if f.name == self.field)


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value.strip()


def _flag(value: str) -> bool:
    word = value.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return word == "true"


def _number(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value.strip()) or int(value) < 1:
        raise ValueError("is no whole number, 1 or more")
    return int(value)


def parse_size(value: str) -> int:
    """A number of bytes as Spark reads it: units are powers of 1024, with or without the b.

    >>> parse_size("128m"), parse_size("128MB"), parse_size("4096")
    (134217728, 134217728, 4096)
    """
    found = re.fullmatch(r"([0-9]{1,15})\s*([kmgt]?)i?b?", value.strip().lower())
    if found is None or (size := int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2]]) < 1:
        raise ValueError("is no size; give bytes, or a text such as 128m or 1g")
    return size


def _memory(value: str) -> int:
    return parse_memory(parse_size(value))


def _one_of(*words: str, hint: str = "") -> Callable[[str], str]:
    def parse(value: str) -> str:
        word = value.strip().lower().replace("-", "_")
        if word not in words:
            raise ValueError(f"is none of: {', '.join(words)}{hint}")
        return word

    return parse


_RANGES = "; rows of a range come from headwater.open(path).incremental() and .changes()"

OPTIONS: tuple[Option, ...] = (
    Option(
        "as_of",
        "as-of",
        "an instant, a timestamp or a date",
        "Read the table as it was then. In SQL: `TIMESTAMP AS OF` and `VERSION AS OF`.",
        _text,
        aliases=("as.of.instant", "timestampAsOf", "versionAsOf"),
        in_session=False,
    ),
    Option(
        "mode",
        "mode",
        "`snapshot`, `read_optimized`",
        "`read_optimized` reads base files alone and passes over what logs hold.",
        _one_of("snapshot", "read_optimized", hint=_RANGES),
        aliases=("hoodie.datasource.query.type",),
        session_aliases=("hoodie.datasource.query.type",),
    ),
    Option(
        "metadata",
        "metadata",
        "`true`, `false`",
        "Whether to list and prune by the table's metadata table. The rows are the same without it.",
        _flag,
        aliases=("hoodie.metadata.enable",),
        session_aliases=("hoodie.metadata.enable",),
    ),
    Option(
        "split_size",
        "split-size",
        "a size",
        "Bytes of a base file that one task reads. Unset: `spark.sql.files.maxPartitionBytes`, and smaller where that "
        "leaves cores idle.",
        parse_size,
        in_table=True,
    ),
    Option(
        "open_cost",
        "file-open-cost",
        "a size",
        "What opening a file counts for when small files are put into one task. Unset: "
        "`spark.sql.files.openCostInBytes`.",
        parse_size,
        aliases=("open-cost",),
        in_table=True,
    ),
    Option(
        "memory",
        "memory",
        "a size",
        "What merging the logs of one slice may hold; larger logs are gone through in several passes. Unset: as much "
        "as it takes.",
        _memory,
        in_table=True,
    ),
    Option(
        "threads",
        "threads",
        "a number",
        "Threads that the driver plans with. Unset: the cores of the machine, at most 8.",
        _number,
    ),
    Option(
        "reader",
        "reader",
        "`native`, `merge`",
        "`merge` merges every slice with logs in Python, row by row of its files: slower, for diagnosis. The rows are "
        "the same.",
        _one_of("native", "merge"),
    ),
    Option(
        "merge_cache",
        "merge-cache",
        "`true`, `false`",
        "Whether executors keep what merging a slice with logs found out, for the next query that reads it. How much "
        "each of their processes keeps, `spark.headwater.sidecar.cache` says.",
        _flag,
    ),
    Option(
        "push_down_aggregates",
        "push-down-aggregates",
        "`true`, `false`",
        "Whether COUNT, MIN and MAX are answered from metadata where it is exact, and by slice where not.",
        _flag,
    ),
    Option(
        "preserve_data_grouping",
        "preserve-data-grouping",
        "`true`, `false`",
        "Report the table's partitioning to Spark, so that joins and aggregates on partition columns need no shuffle.",
        _flag,
    ),
    Option(
        "use_dsv2",
        "use.dsv2",
        "`true`, `false`",
        "`false` reads through the Python Data Source (Spark 4.0 and newer) in place of the Java connector.",
        _flag,
        aliases=("hoodie.datasource.read.use.dsv2",),
        session_aliases=("hoodie.datasource.read.use.dsv2",),
    ),
)

BY_SPARK = frozenset({"path", "paths", "provider", "location"})
"""What Spark itself adds to the options of a read."""

WITHOUT_EFFECT = frozenset(
    {
        "hoodie.enable.data.skipping",
        "hoodie.file.index.enable",
        "hoodie.datasource.read.file.index.listing.mode",
        "hoodie.datasource.read.extract.partition.values.from.path",
        "hoodie.schema.on.read.enable",
        "hoodie.file.group.reader.enabled",
        "hoodie.metadata.index.column.stats.enable",
    }
)
"""Hudi's options that say how to read, not what: accepted, and not needed here."""


def parse_read_options(
    options: Mapping[str, str], session: Mapping[str, Any] | None = None, properties: Mapping[str, str] | None = None
) -> ReadOptions:
    """The options of a read.

    Parameters
    ----------
    options
        What was given to the read itself; unknown names are refused.
    session
        The session's configuration: names below `spark.headwater.read.` and Hudi's own; others are passed over.
    properties
        The table's properties.
    """
    chosen: dict[str, Any] = {}
    for source, names in (
        (properties or {}, _PROPERTY_NAMES),
        (_of_session(session or {}), _SESSION_NAMES),
        (_of_read(options), _OPTION_NAMES),
    ):
        level: dict[str, tuple[str, Any]] = {}
        for name, value in source.items():
            option = names.get(_plain(name))
            if option is None or value is None:
                continue
            parsed = _parsed(option, name, value)
            other, known = level.setdefault(option.field, (name, parsed))
            if known != parsed:
                raise InvalidArgument(f"{other}={known!r} and {name}={parsed!r} are the same option; give one of them")
        chosen |= {field: value for field, (_, value) in level.items()}
    return ReadOptions(**chosen)


def _of_read(options: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in options.items():
        if name.lower() in BY_SPARK or name.lower() in WITHOUT_EFFECT:
            continue
        if _plain(name) not in _OPTION_NAMES:
            raise _unknown(
                name, "read option", [alias for option in OPTIONS for alias in (option.name, *option.aliases)]
            )
        found[name] = value
    return found


def _of_session(session: Mapping[str, Any]) -> dict[str, Any]:
    for name in session:
        if name.startswith(SESSION_PREFIX) and _plain(name) not in _SESSION_NAMES:
            raise _unknown(name, "configuration", [option.session_name for option in OPTIONS if option.in_session])
    return dict(session)


def _unknown(name: str, what: str, known: Iterable[str]) -> InvalidArgument:
    names = list(known)
    lowered = {one.lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    hint = f"did you mean {lowered[near[0]]!r}? " if near else ""
    if name.lower() in ("mergeschema", "inferschema", "schema"):
        hint = "the table knows its schema. "
    if "incr" in name.lower() or "begin.instanttime" in name.lower() or "end.instanttime" in name.lower():
        hint = f"{_RANGES.removeprefix('; ')}. "
    return InvalidArgument(f"no {what} {name!r}; {hint}Known: {', '.join(names)}")


def _parsed(option: Option, name: str, value: Any) -> Any:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return option.parse(text)
    except ValueError as error:
        raise InvalidArgument(f"{name}={value!r} {error}; {option.name} takes {option.values}") from None


def _plain(name: str) -> str:
    """One spelling for `split-size`, `split_size`, `splitSize` and `SPLIT.SIZE`."""
    return re.sub(r"[-_.]", "", name).lower()


_OPTION_NAMES = {
    _plain(name): option for option in OPTIONS for name in (option.name, option.session_name, *option.aliases)
}
_SESSION_NAMES = {
    _plain(name): option
    for option in OPTIONS
    if option.in_session
    for name in (option.session_name, *option.session_aliases)
}
_PROPERTY_NAMES = {_plain(option.property_name): option for option in OPTIONS if option.in_table}
