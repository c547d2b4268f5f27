"""The public face: open a table, scan it, look into it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater import arguments
from headwater.errors import MissingDependency
from headwater.hudi.changes import change_schema
from headwater.hudi.merge.memo import MergeMemo, shared_memo
from headwater.hudi.projection import check_projection
from headwater.hudi.record_index import HudiRecordIndex
from headwater.hudi.schema import TableSchema
from headwater.hudi.slice_reader import HudiSliceReader
from headwater.hudi.table import HudiTable
from headwater.inspect import Inspect
from headwater.pipeline import affordable_workers, parse_memory, parse_size, run
from headwater.plan import PlanStep, ScanPlan, ScanTask
from headwater.spec.expressions import Expression, bind, to_expression
from headwater.spec.model import Instant, ReadingMode
from headwater.storage import Storage
from headwater.writing import TableWrites

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

    from headwater.indexes import Indexes


def open_table(
    path: str | os.PathLike[str], *, metadata: bool = True, filesystem: Any = None, cache: str | int = "64MB"
) -> Table:
    """Open the table at a path or URI.

    Parameters
    ----------
    metadata
        Whether to list and prune by the table's metadata table. The rows are the same without it.
    filesystem
        A pyarrow or fsspec filesystem; by default the one that the URI names.
    cache
        How much this process may hold, for all tables that it opens with the same `cache` together, of what merging
        logs with base files found out: the same columns of a merge-on-read table are then read again about as fast as
        plain files, by this table or by one that is opened later. 0 keeps nothing, and neither does a scan with a
        `memory` of its own.

    >>> from headwater.demo import demo_table
    >>> open_table(demo_table("trips")).version
    9
    """
    arguments.flag("metadata", metadata)
    memo = _memo(cache)
    return Table(HudiTable.open(Storage.at(path, filesystem=filesystem), metadata=metadata, memo=memo))


def _memo(cache: str | int) -> MergeMemo | None:
    arguments.size("cache", cache)
    return shared_memo(parse_size("cache", cache))


def create_table(
    path: str | os.PathLike[str],
    *,
    schema: pa.Schema,
    key: str | Sequence[str] = (),
    ordering: str | Sequence[str] = (),
    partition_by: str | Sequence[str] = (),
    kind: str = "cow",
    version: int = 9,
    merge: str | None = None,
    index: str | Mapping[str, Any] | None = None,
    name: str | None = None,
    key_generator: str | None = None,
    hive_style: bool = False,
    url_encode: bool = False,
    properties: Mapping[str, str] | None = None,
    filesystem: Any = None,
    cache: str | int = "64MB",
) -> Table:
    """Create an empty table in an empty folder, and open it.

    Parameters
    ----------
    schema
        The columns, without Hudi's own.
    key
        The columns that make up the record key; none: each write makes keys up, and rows are never updated.
    ordering
        The columns that tell which of two versions of a record is the later one.
    partition_by
        The columns whose values are folders.
    kind
        `"cow"`: copy on write, `"mor"`: merge on read.
    version
        The table version: 6 is read by every Hudi from 0.14 on, 8 from 1.0 on, 9 from 1.1 on.
    merge
        `"event_time"`: the version with the higher ordering value wins (the default with `ordering`);
        `"commit_time"`: the one that was written last.
    index
        How writers find records: `"bloom"`, `"simple"`, `"global_bloom"`, `"global_simple"`, `"record_index"`, or
        `{"bucket": 8}`: keys are hashed to so many file groups in each partition.
    properties
        More for `hoodie.properties`, by Hudi's names.
    filesystem, cache
        As for `open_table`.

    >>> import tempfile
    >>> schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string())])
    >>> table = create_table(tempfile.mkdtemp(), schema=schema, key="id", ordering="ts", partition_by="city")
    >>> table.version, table.scan().count()
    (9, 0)
    """
    from headwater.hudi.write import create as creation
    from headwater.hudi.write.options import index_properties
    from headwater.hudi.write.reconcile import stored_schema

    memo = _memo(cache)
    storage = Storage.at(path, filesystem=filesystem)
    chosen = name if name is not None else storage.root.rstrip("/").rsplit("/", 1)[-1]
    creation.create_table(
        storage,
        name=chosen,
        schema=stored_schema(arguments.arrow_schema("schema", schema)),
        record_key=arguments.some_columns("key", key),
        ordering=arguments.some_columns("ordering", ordering),
        partition_by=arguments.some_columns("partition_by", partition_by),
        kind="mor" if arguments.one_of("kind", kind, ("cow", "mor")) == "mor" else "cow",
        version=version,
        merge_mode=merge,
        key_generator=key_generator,
        hive_style=arguments.flag("hive_style", hive_style),
        url_encode=arguments.flag("url_encode", url_encode),
        properties={**index_properties(index), **(properties or {})},
    )
    if index is not None:
        creation.prepare_indexes(storage)
    return Table(HudiTable.open(storage, memo=memo))


@dataclass
class Table(TableWrites):
    """A table as it was when it was opened, or last written to here. `refresh()` gives it as it is now."""

    hudi: HudiTable

    @property
    def name(self) -> str:
        return self.hudi.config.name

    @property
    def uri(self) -> str:
        return self.hudi.storage.uri

    @property
    def version(self) -> int:
        return self.hudi.config.version

    @property
    def schema(self) -> pa.Schema:
        """The newest schema, meta columns first."""
        return self.hudi.schema.arrow

    @property
    def inspect(self) -> Inspect:
        """What the table is made of: history, files, slices, partitions, properties and statistics."""
        return Inspect(self.hudi)

    @property
    def index(self) -> Indexes:
        """The indexes of the table: `table.index.create("record_index")`, `drop`, `rebuild`, `verify`."""
        from headwater.indexes import Indexes  # and with it much of what writes: a tenth of the import

        return Indexes(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What reads of this table passed over so far, as Hudi does: torn and corrupt log blocks, a stale index.

        >>> from headwater.demo import demo_table
        >>> open_table(demo_table("trips")).warnings
        ()
        """
        return tuple(self.hudi.warnings)

    def refresh(self) -> Table:
        """The same table with what has been committed since."""
        return Table(self.hudi.reopened())

    def scan(
        self,
        *,
        filter: str | Expression | None = None,
        columns: Sequence[str] | None = None,
        as_of: object = None,
        limit: int | None = None,
        mode: str = "snapshot",
        memory: str | int | None = None,
        threads: int | None = None,
    ) -> Scan:
        """Rows of the table as they are, or as they were at an instant, a timestamp or a date."""
        kinds = {"snapshot": ReadingMode.SNAPSHOT, "read_optimized": ReadingMode.SNAPSHOT_READ_OPTIMIZED}
        chosen = kinds[arguments.one_of("mode", mode, kinds, "; for ranges use incremental() or changes()")]
        names = arguments.column_names(columns)
        return Scan(self._as_it_is(), chosen, _expression(filter), names, as_of, None, None, limit, memory, threads)

    def incremental(
        self,
        start: object = None,
        end: object = None,
        *,
        filter: str | Expression | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        if_cleaned: str = "raise",
        memory: str | int | None = None,
        threads: int | None = None,
    ) -> Scan:
        """Rows that changed after `start`, up to and with `end`, as they were at `end`.

        Parameters
        ----------
        start, end
            Commits by their instants, or points in time; None leaves a side open. The start is exclusive.
        if_cleaned
            What to do when files of the range were cleaned: `"raise"` an error that names the earliest instant, or
            `"best_effort"`: answer from the files that are left, as Hudi 1.x does. Rows may be missing then.
        """
        return Scan(
            self._as_it_is(),
            ReadingMode.INCREMENTAL,
            _expression(filter),
            arguments.column_names(columns),
            None,
            start,
            end,
            limit,
            memory,
            threads,
            if_cleaned,
        )

    def changes(
        self,
        start: object = None,
        end: object = None,
        *,
        filter: str | Expression | None = None,
        limit: int | None = None,
        memory: str | int | None = None,
        threads: int | None = None,
    ) -> Scan:
        """Each change made after `start`, up to and with `end`: its operation, and the row before and after it."""
        return Scan(
            self._as_it_is(), ReadingMode.CDC, _expression(filter), None, None, start, end, limit, memory, threads
        )

    def _as_it_is(self) -> Table:
        """For a scan, which goes on seeing this state when the table is written to."""
        return Table(self.hudi)

    @property
    def record_index(self) -> HudiRecordIndex:
        """Finds where record keys live."""
        return HudiRecordIndex(self.hudi)

    def lookup(self, keys: Sequence[str] | pa.Array, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows with these record keys; only slices that can hold them are read.

        Where the table has a record index, that decides; it knows one place for each key. A key that was inserted
        twice has more rows than that: a scan with a filter on the key gives them all.

        >>> from headwater.demo import demo_table
        >>> open_table(demo_table("trips")).lookup(["no such key"]).num_rows
        0
        """
        wanted, chosen = arguments.record_keys(keys), arguments.column_names(columns)
        names = self.schema.names if chosen is None else chosen
        return self.hudi.rows_by_key(wanted, check_projection(self.schema, names))


def _expression(filter: str | Expression | None) -> Expression | None:
    return None if filter is None else to_expression(filter)


@dataclass(frozen=True)
class Scan:
    """A read that has not run yet. Scans do not change: each method returns a new one, or runs it."""

    table: Table
    mode: ReadingMode
    filter: Expression | None = None
    columns: tuple[str, ...] | None = None
    as_of: object = None
    start: object = None
    end: object = None
    limit: int | None = None
    memory: str | int | None = None
    threads: int | None = None
    if_cleaned: str = "raise"
    partitions: frozenset[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        arguments.whole_number("limit", self.limit, 0)
        arguments.whole_number("threads", self.threads, 1)
        arguments.column_names(self.columns)
        arguments.one_of("if_cleaned", self.if_cleaned, ("raise", "best_effort"))
        arguments.size("memory", self.memory)
        parse_memory(self.memory)

    def where(self, filter: str | Expression) -> Scan:
        """Only rows that match this too."""
        added = to_expression(filter)
        return replace(self, filter=added if self.filter is None else to_expression([self.filter, added]))

    def within(self, partitions: Iterable[str]) -> Scan:
        """Only these partitions, by their paths: for an engine that has chosen them by filters of its own.

        >>> from headwater.demo import demo_table
        >>> trips = open_table(demo_table("trips")).scan()
        >>> trips.within([]).count()
        0
        """
        return replace(self, partitions=frozenset(partitions))

    def select(self, *columns: str) -> Scan:
        """Only these columns."""
        return replace(self, columns=columns)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._output(self._table_schema())

    def plan(self) -> ScanPlan:
        """What the scan will read. Nothing but metadata is touched."""
        return self._plan()[0]

    def prepare(self) -> tuple[ScanPlan, HudiSliceReader]:
        """The plan, and the reader that opens its slices: for an engine that runs the plan itself."""
        return self._plan()

    def explain(self) -> str:
        """The plan as text: each pass, what it kept and why."""
        return str(self.plan())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as a stream of Arrow batches; no slice is held whole before the first one comes."""
        plan, reader = self._plan()
        budget = parse_memory(self.memory)
        workers = affordable_workers(plan.tasks, self._threads(), budget)
        reader = reader.within(budget // (2 * workers))
        if self.table.hudi.memo is not None and self.memory is None:
            reader = reader.remembering(self.table.hudi.memo)

        def read(task: ScanTask) -> Iterator[pa.RecordBatch]:
            return reader.open(task.slice)

        left = self.limit
        for batch in run(plan.tasks, read, threads=workers, budget=budget):
            if left is not None:
                if left <= 0:
                    return
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                return

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        schema = self.schema
        return pa.Table.from_batches([_as(batch, schema) for batch in self.to_batches()], schema=schema)

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas data frame."""
        _need("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """All rows as a Polars data frame."""
        import polars

        found = polars.from_arrow(self.to_arrow())
        assert isinstance(found, polars.DataFrame)
        return found

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, streamed when it is queried."""
        _need("duckdb")
        import duckdb

        return (connection or duckdb.connect()).from_arrow(self.to_reader())

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream."""
        schema = self.schema
        return pa.RecordBatchReader.from_batches(schema, (_as(batch, schema) for batch in self.to_batches()))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def count(self) -> int:
        """How many rows there are."""
        return sum(batch.num_rows for batch in self.to_batches())

    def _listed_by(self) -> str:
        return "by folder listing" if self.table.hudi.metadata is None else "by the metadata table"

    def _threads(self) -> int:
        return self.threads or min(os.cpu_count() or 1, 8)

    def _table_schema(self) -> TableSchema:
        """Time travel gives the columns of its commit, every other mode the newest."""
        hudi = self.table.hudi
        return hudi.schema if self.as_of is None else hudi.schema_at(hudi.instant_at(self.as_of))

    def _output(self, schema: TableSchema) -> pa.Schema:
        if self.mode is ReadingMode.CDC:
            return change_schema(schema.arrow)
        names = schema.arrow.names if self.columns is None else self.columns
        return pa.schema([f.with_nullable(True) for f in check_projection(schema.arrow, names)])

    def _plan(self) -> tuple[ScanPlan, HudiSliceReader]:
        hudi = self.table.hudi
        schema = self._table_schema()
        output = self._output(schema)
        filters = None if self.filter is None else bind(self.filter, schema.arrow)
        index = hudi.file_index(
            schema,
            base_files_only=self.mode is ReadingMode.SNAPSHOT_READ_OPTIMIZED,
            despite_cleaning=self.if_cleaned == "best_effort",
            only=self.partitions,
        )
        instant: Instant | None = None
        instants: tuple[Instant, ...] = ()
        tasks: list[ScanTask] = []
        as_of: str | None = None
        if self.mode in (ReadingMode.SNAPSHOT, ReadingMode.SNAPSHOT_READ_OPTIMIZED):
            instant = None if self.as_of is None else hudi.instant_at(self.as_of)
            as_of = None if instant is None else instant.requested_at
            for found in index.list_files_at(instant, filters):
                tasks += [ScanTask(found.partition, slice_) for slice_ in found.slices]
            instant = instant or hudi.timeline.find_latest_completed_action_at()
        else:
            start = hudi.bound_of_range(self.start if self.start is not None else "0" * 17)
            end = None if self.end is None else hudi.bound_of_range(self.end)
            instants = tuple(index.instants_between(start, end))
            if self.mode is ReadingMode.INCREMENTAL:
                for part in index.list_files_between(start, end, filters):
                    tasks += [ScanTask(part.partition, slice_) for slice_ in part.slices]
                if hudi.config.version < 8 and end is not None:
                    as_of = end.requested_at
            else:
                for changed in index.list_changes_between(start, end, filters):
                    tasks += [ScanTask(changed.partition, change) for change in changed.changes]
        report = index.report
        steps = [
            PlanStep("prune partitions", report.partitions_total, report.partitions_kept, "partitions"),
            # Statistics of partitions spare their listing.
            *(step for step in report.steps if step.unit == "partitions"),
            PlanStep("list slices", report.slices_total, report.slices_total, "slices", self._listed_by()),
            *(step for step in report.steps if step.unit != "partitions"),
        ]
        plan = ScanPlan(
            self.table.name, self.mode, output, instant, instants, filters, self.limit, tuple(steps), tuple(tasks)
        )
        reader = hudi.reader(schema, mode=self.mode, as_of=as_of)
        if self.mode is not ReadingMode.CDC:
            reader = reader.project(output)
        if filters is not None:
            reader = reader.push_down_filters(filters)
        return plan, reader


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def _need(package: str) -> None:
    try:
        __import__(package)
    except ImportError as error:
        raise MissingDependency(f"{package} is not installed; install headwater[{package}]") from error
