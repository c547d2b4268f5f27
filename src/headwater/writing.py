"""The part of the public face that changes a table. Every method commits once and returns what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headwater import arguments
from headwater.errors import InvalidArgument, WrongType
from headwater.hudi.table import HudiTable
from headwater.spec.expressions import Expression, to_expression

if TYPE_CHECKING:
    from headwater.hudi.write.merge_statement import MergeStatement
    from headwater.hudi.write.result import RollbackResult, WriteResult

Options = Mapping[str, Any] | None
"""Hudi's names of write options → their values, for one write."""


class FrameWriter(Protocol):
    """Who writes the data frames of an engine: the operations on them, and their rows for a merge."""

    def operations(self) -> Any: ...

    def merge_source(self, frame: Any) -> Any: ...


_WRITERS: dict[str, FrameWriter] = {}


def write_frames_of(package: str, writer: FrameWriter) -> None:
    """Have the data frames of a package written by an engine of their own; engines call this, tables know none."""
    _WRITERS[package] = writer


def _writer_of(rows: Any) -> FrameWriter | None:
    return _WRITERS.get(type(rows).__module__.partition(".")[0])


def _operations(rows: Any) -> Any:
    """The operations for such rows: those of their engine, or those in this process."""
    writer = _writer_of(rows)
    if writer is not None:
        return writer.operations()
    from headwater.hudi.write import operations

    return operations


def _rows(data: Any) -> Any:
    writer = _writer_of(data)
    if writer is not None:
        return writer.merge_source(data)
    from headwater.hudi.write.input import to_table

    return to_table(data)


class TableWrites:
    """What a table can be told to do.

    Rows are a data frame of Spark, Polars or pandas, a pyarrow Table or RecordBatchReader, or a list of dictionaries.
    What cannot be written is refused before anything is. After a write, the table shows it.
    """

    hudi: HudiTable

    def insert(self, rows: Any, *, if_present: str = "keep", options: Options = None) -> WriteResult:
        """Add rows; small files are filled up first.

        Parameters
        ----------
        if_present
            What to do about keys that are stored already, or twice among the rows: `"keep"` does not look and may store
            a key twice, as Hudi does; `"drop"` leaves such rows out; `"fail"` refuses the write.
        options
            Hudi's write options by name, such as `hoodie.parquet.max.file.size`.

        >>> from headwater.demo import empty_table
        >>> table = empty_table()
        >>> table.insert([{"id": "a", "ts": 1, "price": 9.5}]).inserted
        1
        """
        return self._written(_operations(rows).insert(self.hudi, rows, if_present=if_present, options=options))

    def bulk_insert(self, rows: Any, *, sort: str = "none", options: Options = None) -> WriteResult:
        """Add rows as new files, whatever is stored: the fastest way to load a table. A stream is written as it comes.

        Parameters
        ----------
        sort
            `"none"`; `"partition"`: by partition and key among the rows in memory at a time; `"global"`: all rows.

        >>> from headwater.demo import empty_table
        >>> import pyarrow as pa
        >>> table = empty_table()
        >>> table.bulk_insert(pa.table({"id": ["b", "a"], "ts": [1, 1], "price": [1.0, 2.0]}), sort="global").inserted
        2
        """
        return self._written(_operations(rows).bulk_insert(self.hudi, rows, sort=sort, options=options))

    def upsert(self, rows: Any, *, partial: bool = False, options: Options = None) -> WriteResult:
        """Rows whose keys are stored replace what is stored, by the table's merge mode; the others are added.

        Rows with `_hoodie_is_deleted` true delete their record. Of several rows of a key one is taken, the latest.

        Parameters
        ----------
        partial
            Columns that the rows do not have keep their stored values. A merge-on-read table from version 8 on stores
            the given columns alone.

        >>> from headwater.demo import empty_table
        >>> table = empty_table()
        >>> _ = table.insert([{"id": "a", "ts": 1, "price": 9.5}])
        >>> result = table.upsert([{"id": "a", "ts": 2, "price": 8.0}, {"id": "b", "ts": 2, "price": 1.0}])
        >>> result.inserted, result.updated
        (1, 1)
        >>> table.scan(columns=["id", "price"]).to_arrow().sort_by("id").to_pylist()
        [{'id': 'a', 'price': 8.0}, {'id': 'b', 'price': 1.0}]
        """
        return self._written(_operations(rows).upsert(self.hudi, rows, partial=partial, options=options))

    def delete(
        self, keys: Any = None, *, where: str | Expression | None = None, options: Options = None
    ) -> WriteResult:
        """Delete rows by their keys or by a filter.

        Parameters
        ----------
        keys
            Record keys as texts, or rows that have the key columns. Where these have the partition's columns as well,
            only the record of that partition is meant. An expression is taken for a filter.
        where
            A filter instead: every row that matches goes.

        >>> from headwater.demo import empty_table
        >>> table = empty_table()
        >>> _ = table.insert([{"id": "a", "ts": 1, "price": 9.5}, {"id": "b", "ts": 1, "price": 1.0}])
        >>> table.delete(["a"]).deleted, table.delete(where="price < 5").deleted
        (1, 1)
        """
        from headwater.hudi.write import operations

        if isinstance(keys, str):
            raise InvalidArgument(
                f"delete({keys!r}): a text alone may be a key or a filter; write delete([{keys!r}]) for the row of "
                f"that key, delete(where={keys!r}) for the rows that match"
            )
        if isinstance(keys, Expression) and where is None:
            keys, where = None, keys
        if (keys is None) == (where is None):
            raise InvalidArgument(
                "delete(keys, where): give keys or a filter, one of the two; overwrite([]) empties a table"
            )
        if where is not None:
            return self._written(operations.delete_where(self.hudi, to_expression(where), options=options))
        return self._written(_operations(keys).delete_keys(self.hudi, keys, options=options))

    def update(
        self, set: Mapping[str, Any], where: str | Expression | None = None, *, options: Options = None
    ) -> WriteResult:
        """Set columns of all rows that match a filter.

        Parameters
        ----------
        set
            Column → a constant, another column (`headwater.col("x")`), or a function that gets the rows as an Arrow
            table and gives a column.

        >>> from headwater.demo import empty_table
        >>> import pyarrow.compute as pc
        >>> table = empty_table()
        >>> _ = table.insert([{"id": "a", "ts": 1, "price": 9.5}])
        >>> table.update({"price": lambda rows: pc.multiply(rows["price"], 2)}, where="id = 'a'").updated
        1
        >>> table.scan(columns=["price"]).to_arrow().to_pylist()
        [{'price': 19.0}]
        """
        from headwater.hudi.write import operations

        if not isinstance(set, Mapping) or not set:
            raise InvalidArgument("set: give a mapping of columns to values, such as {'price': 0}")
        condition = None if where is None else to_expression(where)
        return self._written(operations.update(self.hudi, set, condition, options=options))

    def insert_overwrite(self, rows: Any, *, sort: str = "none", options: Options = None) -> WriteResult:
        """The rows take the place of all that is stored in their partitions.

        >>> from headwater.demo import empty_table
        >>> table = empty_table(partition_by="id")
        >>> _ = table.insert([{"id": "a", "ts": 1, "price": 9.5}, {"id": "b", "ts": 1, "price": 1.0}])
        >>> _ = table.insert_overwrite([{"id": "a", "ts": 2, "price": 2.5}])
        >>> table.scan(columns=["price"]).to_arrow().sort_by("price").to_pylist()
        [{'price': 1.0}, {'price': 2.5}]
        """
        return self._written(_operations(rows).insert_overwrite(self.hudi, rows, sort=sort, options=options))

    def overwrite(self, rows: Any, *, sort: str = "none", options: Options = None) -> WriteResult:
        """The rows take the place of all that is stored.

        >>> from headwater.demo import empty_table
        >>> table = empty_table()
        >>> _ = table.insert([{"id": "a", "ts": 1, "price": 9.5}])
        >>> _ = table.overwrite([{"id": "b", "ts": 1, "price": 1.0}])
        >>> table.scan(columns=["id"]).to_arrow().to_pylist()
        [{'id': 'b'}]
        """
        return self._written(_operations(rows).overwrite(self.hudi, rows, sort=sort, options=options))

    def delete_partitions(self, partitions: Sequence[str], *, options: Options = None) -> WriteResult:
        """All rows of some partitions, given by their paths, go.

        >>> from headwater.demo import empty_table
        >>> table = empty_table(partition_by="id")
        >>> _ = table.insert([{"id": "a", "ts": 1, "price": 9.5}, {"id": "b", "ts": 1, "price": 1.0}])
        >>> _ = table.delete_partitions(["a"])
        >>> table.scan().count()
        1
        """
        from headwater.hudi.write import operations

        return self._written(operations.delete_partitions(self.hudi, partitions, options=options))

    def merge(self, source: Any, on: str | Sequence[str], *, options: Options = None) -> MergeStatement:
        """Join rows to the table and update, delete or insert; says what with its methods, and runs with `execute()`.

        Conditions and values call the two sides `source` and `target`.

        >>> from headwater.demo import empty_table
        >>> table = empty_table()
        >>> _ = table.insert([{"id": "a", "ts": 1, "price": 9.5}, {"id": "b", "ts": 1, "price": 1.0}])
        >>> changes = [{"id": id, "ts": 2, "price": price} for id, price in [("a", 0.0), ("b", 3.0), ("c", 7.0)]]
        >>> result = (table.merge(changes, on="id")
        ...     .when_matched_delete(where="source.price = 0")
        ...     .when_matched_update(["ts", "price"])
        ...     .when_not_matched_insert()
        ...     .execute())
        >>> result.inserted, result.updated, result.deleted
        (1, 1, 1)
        """
        from headwater.hudi.write.merge_statement import MergeStatement

        names = (on,) if isinstance(on, str) else arguments.column_names(on) or ()
        return MergeStatement(self.hudi, _rows(source), names, options, done=self._reopen)

    def rollback(self, instant: str) -> RollbackResult:
        """Undo the newest write, or one that never completed: it leaves the timeline, and its files go.

        A write that died needs no rollback by hand: the next writer does it. A writer that still shows signs of life,
        a write that others build upon and one that a savepoint keeps are refused. A crash leaves the table as before,
        or a rollback in the timeline that the next writer ends.

        Parameters
        ----------
        instant
            Of the write, as `inspect.history()` and the write's result tell it.

        >>> from headwater.demo import empty_table
        >>> table = empty_table()
        >>> _ = table.insert([{"id": "a", "ts": 1, "price": 9.5}])
        >>> mistake = table.insert([{"id": "b", "ts": 1, "price": 1.0}])
        >>> done = table.rollback(mistake.instant.requested_at)
        >>> done.undone == mistake.instant, table.scan().count()
        (True, 1)
        """
        from headwater.hudi.write.rollback import rollback

        if not isinstance(instant, str):
            raise WrongType(f"instant={instant!r}: give the instant of a write as a text, such as '20260101000000000'")
        result = rollback(self.hudi, instant)
        self._reopen()
        return result

    def _written(self, result: WriteResult) -> WriteResult:
        if result.instant is not None:
            self._reopen()
        return result

    def _reopen(self) -> None:
        self.hudi = self.hudi.reopened()
