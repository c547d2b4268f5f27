"""How a table merges: its merge mode, ordering fields, partial updates and delete markers (facts 6.1–6.5, 15.7)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import InvalidTableConfig, UnknownMerger
from headwater.hudi.merge.custom import Merger, find_merger
from headwater.hudi.properties import MergeMode, PartialUpdateMode, TableConfig

_EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"


@dataclass(frozen=True, slots=True)
class MergeRules:
    """What a reader must know to merge two versions of a record."""

    mode: MergeMode
    ordering_fields: tuple[str, ...] = ()
    partial: PartialUpdateMode | None = None
    unavailable: str | None = None
    """The text that stands for a value which the source did not send (FILL_UNAVAILABLE)."""
    delete_field: str | None = None
    delete_marker: str | None = None
    merger: Merger | None = None
    deletes_ignore_ordering: bool = False
    """Payloads of old releases: a delete record wins whatever its ordering value."""
    ordering_is_sequence: bool = False
    """The ordering field holds `file.position`, two numbers to be compared one after the other."""
    stamps_latest: bool = False
    """A merged row has the meta columns of the version that was written last, whichever version wins."""
    compares_no_text: bool = False
    """Rows whose ordering values are text win in the order they were written: Hudi compares values of one Java class
    only, and reads text of the two versions as different ones. Deletes are compared."""

    @property
    def by_event_time(self) -> bool:
        return self.mode is MergeMode.EVENT_TIME_ORDERING and bool(self.ordering_fields)

    @property
    def merges_columns(self) -> bool:
        """Whether a merged row may take columns of both versions."""
        return self.partial is not None or self.merger is not None

    def columns_needed(self) -> tuple[str, ...]:
        """Columns that merging looks at, besides the key."""
        marker = () if self.delete_field is None else (self.delete_field,)
        return (*self.ordering_fields, *marker)


_PACKAGE = "org.apache.hudi.common.model."
_BY_PAYLOAD: dict[str, tuple[MergeMode, PartialUpdateMode | None]] = {
    "DefaultHoodieRecordPayload": (MergeMode.EVENT_TIME_ORDERING, None),
    "EventTimeAvroPayload": (MergeMode.EVENT_TIME_ORDERING, None),
    "OverwriteWithLatestAvroPayload": (MergeMode.COMMIT_TIME_ORDERING, None),
    "OverwriteNonDefaultsWithLatestAvroPayload": (MergeMode.COMMIT_TIME_ORDERING, PartialUpdateMode.IGNORE_DEFAULTS),
    "PartialUpdateAvroPayload": (MergeMode.EVENT_TIME_ORDERING, PartialUpdateMode.IGNORE_DEFAULTS),
    "AWSDmsAvroPayload": (MergeMode.COMMIT_TIME_ORDERING, None),
    "debezium.MySqlDebeziumAvroPayload": (MergeMode.EVENT_TIME_ORDERING, None),
    "debezium.PostgresDebeziumAvroPayload": (MergeMode.EVENT_TIME_ORDERING, None),
}
_DELETE_MARKERS = {
    "AWSDmsAvroPayload": ("Op", "D"),
    "debezium.MySqlDebeziumAvroPayload": ("_change_operation_type", "d"),
    "debezium.PostgresDebeziumAvroPayload": ("_change_operation_type", "d"),
}


def merge_rules(config: TableConfig) -> MergeRules:
    """The rules that a table's properties add up to; an unknown payload class is an error, never a guess."""
    payload = config.payload_class or ""
    short = payload.removeprefix(_PACKAGE)
    field, marker = _delete_marker(config, short)
    custom = find_merger(payload, config.merge_strategy)
    if custom is not None:
        return MergeRules(MergeMode.CUSTOM, config.ordering_fields, None, None, field, marker, custom)
    if config.version >= 9 and config.merge_mode_declared not in (None, "CUSTOM"):
        unavailable = config.merge_property("hoodie.write.partial.update.unavailable.value")
        mode = MergeMode(config.merge_mode_declared)
        return MergeRules(mode, config.ordering_fields, config.partial_update_mode, unavailable, field, marker)
    mode, partial = _mode(config, payload, short)
    is_mysql = short == "debezium.MySqlDebeziumAvroPayload"
    return MergeRules(
        mode,
        ("_event_seq",) if is_mysql else config.ordering_fields,
        partial,
        None,
        field,
        marker,
        deletes_ignore_ordering=short.startswith("debezium."),
        ordering_is_sequence=is_mysql,
        stamps_latest=short == "PartialUpdateAvroPayload",
        compares_no_text=short == "PartialUpdateAvroPayload",
    )


def _mode(config: TableConfig, payload: str, short: str) -> tuple[MergeMode, PartialUpdateMode | None]:
    declared = config.merge_mode_declared
    if declared in ("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"):
        return MergeMode(declared), None
    if short in _BY_PAYLOAD:
        return _BY_PAYLOAD[short]
    if payload:
        raise UnknownMerger(
            f"table {config.name}: payload class {payload} is not one of Hudi's own and nobody registered it; "
            f"register how it merges with headwater.register_merger({payload!r}, …), or read with mode "
            '"read_optimized", which merges nothing'
        )
    if declared == "CUSTOM":
        raise UnknownMerger(
            f"table {config.name}: hoodie.record.merge.mode=CUSTOM with strategy {config.merge_strategy}; register it "
            f"with headwater.register_merger({config.merge_strategy!r}, …)"
        )
    if config.merge_strategy == _COMMIT_TIME_STRATEGY:
        return MergeMode.COMMIT_TIME_ORDERING, None
    by_event = bool(config.ordering_fields) or config.merge_strategy == _EVENT_TIME_STRATEGY
    return (MergeMode.EVENT_TIME_ORDERING if by_event else MergeMode.COMMIT_TIME_ORDERING), None


def _delete_marker(config: TableConfig, short: str) -> tuple[str | None, str | None]:
    field = config.merge_property("hoodie.payload.delete.field")
    marker = config.merge_property("hoodie.payload.delete.marker")
    if (field is None) != (marker is None):
        raise InvalidTableConfig(
            f"table {config.name}: hoodie.payload.delete.field={field} and hoodie.payload.delete.marker={marker}: "
            "set both or neither"
        )
    if field is None and short in _DELETE_MARKERS:
        return _DELETE_MARKERS[short]
    return field, marker
