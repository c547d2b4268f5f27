"""COUNT, MIN and MAX from metadata, footers and rows, against the rows themselves, on every table there is."""

from __future__ import annotations

import base64
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.fixtures.suites import FixtureTable, tables
from tests.unit.spark.client import Sidecar

import headwater
from headwater.hudi.slice_reader import HudiSliceReader
from headwater.spark.aggregates import Aggregate, AggregateSpec, NotSupported, Tally, external, kept
from headwater.spark.options import parse_read_options
from headwater.spark.sidecar import aggregating
from headwater.spark.sidecar.aggregating import plan_aggregate, run_aggregate
from headwater.spark.sidecar.merging import SliceScan
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.types import arrow_type, spark_type
from headwater.spec.model import FileSlice
from headwater.spec.statistics import ColumnStatistics

TABLES = tables("generated")
VERSION = "0.1.0"


def opened(path: Any, **options: str) -> OpenTable:
    given = parse_read_options(options)
    return OpenTable(headwater.open(path, metadata=given.metadata), given)


def answer(table: OpenTable, request: dict[str, Any]) -> list[tuple[Any, ...]] | None:
    """The rows, as the connector would have them; None where the aggregate is left to Spark."""
    plan = plan_aggregate(table, request, VERSION)
    if not plan["supported"]:
        assert plan["why"]
        return None
    spec = AggregateSpec.of(table.schema, asked(request), request["group_by"])
    tally = Tally(spec)
    if plan["complete"]:
        columns = zip(*plan["rows"], strict=True) if plan["rows"] else [[] for _ in spec.schema]
        arrays = [from_internal(list(column), field.type) for column, field in zip(columns, spec.schema, strict=True)]
        tally.add(pa.RecordBatch.from_arrays(arrays, schema=spec.schema))
    else:
        assert all(task["how"] == "aggregate" for task in plan["tasks"])
        scan = SliceScan.from_bytes(base64.b64decode(plan["scan"]), VERSION)
        for task in plan["tasks"]:
            schema, batch = run_aggregate(scan, [base64.b64decode(task["payload"])])
            assert schema == batch.schema == spec.schema
            tally.add(batch)
    return rows_of(tally.to_batch())


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    columns = [batch.column(i) for i in range(batch.num_columns)]
    return sorted(zip(*(c.to_pylist() for c in columns), strict=True), key=repr)


def from_internal(values: list[Any], kind: pa.DataType) -> pa.Array:
    """JSON values of the contract in a Spark type."""
    if pa.types.is_string(kind):
        return pa.array(values, kind)
    if pa.types.is_binary(kind):
        return pa.array([None if v is None else base64.b64decode(v) for v in values], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if v is None else Decimal(v) for v in values], kind)
    if pa.types.is_floating(kind):
        return pa.array([None if v is None else float(v) for v in values], kind)
    return external(values, kind)


def asked(request: dict[str, Any]) -> list[Aggregate]:
    return [Aggregate(one["function"], tuple(one["column"])) for one in request["aggregates"]]


def by_rows(rows: pa.Table, request: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The same by looking at every value, in plain Python."""
    spec = AggregateSpec.of(rows.schema, asked(request), request["group_by"])
    groups: dict[tuple[Any, ...], list[int]] = {} if spec.group_by else {(): []}
    keys = [rows.column(name).to_pylist() for name in spec.group_by]
    for index in range(rows.num_rows):
        key = tuple(kept(column[index], kind) for column, kind in zip(keys, spec.group_types, strict=True))
        groups.setdefault(key, []).append(index)
    values = {name: rows.column(name).to_pylist() for name in spec.columns}
    found = []
    for key, chosen in groups.items():
        row = list(key)
        for one, kind in zip(spec.aggregates, spec.value_types, strict=True):
            if one.function == "count_star":
                row.append(len(chosen))
                continue
            present = [value for i in chosen if (value := values[one.column[0]][i]) is not None]
            if one.function == "count":
                row.append(len(present))
                continue
            ordered = sorted((kept(v, kind) for v in present), key=lambda v: (v != v, v if v == v else 0))
            row.append(None if not ordered else ordered[0 if one.function == "min" else -1])
        found.append(row)
    arrays = [external([row[i] for row in found], field.type) for i, field in enumerate(spec.schema)]
    return rows_of(pa.RecordBatch.from_arrays(arrays, schema=spec.schema))


def requests(table: OpenTable) -> list[dict[str, Any]]:
    flat = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    ordered = [name for name in flat if not pa.types.is_time(table.schema.field(name).type)]
    star = {"function": "count_star", "column": []}
    every = [{"function": f, "column": [name]} for name in ordered for f in ("min", "max")]
    counts = [star, *({"function": "count", "column": [field.name]} for field in table.schema)]
    groups: list[list[str]] = [[]]
    if table.partition_columns:
        groups += [table.partition_columns, table.partition_columns[:1]]
    return [
        *({"aggregates": [star], "group_by": group} for group in groups),
        *({"aggregates": counts, "group_by": group} for group in groups),
        *({"aggregates": [star, *every], "group_by": group} for group in groups),
        *({"aggregates": [one], "group_by": []} for one in every[::5]),
    ]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.parametrize("where", ["driver", "executors"])
def test_every_table_gives_what_its_rows_give(table: FixtureTable, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "executors":
        monkeypatch.setattr(aggregating, "MOST_FOOTERS", 0)
        monkeypatch.setattr(aggregating, "_DRIVER_BYTES", -1)
    modes: list[dict[str, str]] = [{}, {"mode": "read_optimized"}]
    for options in modes[:1] if table.kind == "COW" else modes:
        target = opened(table.path(), **options)
        rows = target.scan.to_arrow()
        chosen = requests(target)
        for request in chosen if where == "driver" else chosen[1::3]:
            found = answer(target, request)
            if found is not None:
                assert same(found, by_rows(rows, request)), request


def same(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    def plain(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
        return [["NaN" if isinstance(v, float) and math.isnan(v) else v for v in row] for row in rows]

    return plain(left) == plain(right)


def test_counts_of_copy_on_write_tables_are_complete_without_a_task() -> None:
    chosen = [table for table in TABLES if table.kind == "COW"]
    assert chosen
    for table in chosen:
        plan = plan_aggregate(opened(table.path()), {"aggregates": [star()], "group_by": []}, VERSION)
        assert plan["supported"], plan["why"]
        assert plan["complete"]


def test_one_slice_with_logs_does_not_spoil_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregating, "_DRIVER_BYTES", -1)
    seen = False
    for table in TABLES:
        target = opened(table.path())
        slices = [task.slice for task in target.scan.plan().tasks]
        logs = [one for one in slices if one.delta_files]  # type: ignore[union-attr]
        plan = plan_aggregate(target, {"aggregates": [key_count()], "group_by": []}, VERSION)
        hudi = target.table.hudi
        plain = hudi.schema.internal is None and hudi.config.populate_meta_fields
        if plain and logs and len(logs) < len(slices) and plan["supported"]:
            metrics = plan["metrics"]
            assert metrics["by_metadata"] + metrics["by_footers"] == len(slices) - len(logs)
            seen = True
    assert seen


def test_filters_on_partition_columns_count_and_others_are_left_to_spark() -> None:
    for table in TABLES:
        target = opened(table.path())
        text = [n for n in target.partition_columns if pa.types.is_string(target.schema.field(n).type)]
        values = [p.as_mapping().get(text[0]) for p in target.partitions] if text else []
        if not values or values[0] is None:
            continue
        literal = {"lit": values[0], "type": "string"}
        predicate = {"op": "=", "args": [{"col": [text[0]]}, literal]}
        request = {"aggregates": [star()], "group_by": [], "predicates": [predicate]}
        expected = target.scan.where(f"{text[0]} = '{values[0]}'").count()
        found = answer(target, request)
        assert found is None or found == [(expected,)]
        other = {"op": "=", "args": [{"col": ["_hoodie_record_key"]}, literal]}
        assert answer(target, {**request, "predicates": [other]}) is None
        assert answer(target, {**request, "predicates": [None]}) is None


def test_logs_of_updates_are_counted_without_being_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregating, "_DRIVER_BYTES", -1)
    counted = 0
    for table in TABLES:
        target = opened(table.path())
        slices = [task.slice for task in target.scan.plan().tasks]
        plan = plan_aggregate(target, {"aggregates": [star()], "group_by": []}, VERSION)
        if plan["complete"] and any(one.delta_files for one in slices):  # type: ignore[union-attr]
            assert plan["rows"] == [[target.scan.count()]]
            counted += 1
    assert counted >= 10


def test_base_files_under_logs_are_read_only_where_they_can_change_the_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = list(range(400))
    rows = pa.table({"id": ids, "p": [str(i % 4) for i in ids], "ts": ids, "x": [i * 7 % 400 for i in ids]})
    table = headwater.create(
        tmp_path / "t", schema=rows.schema, key="id", ordering="ts", partition_by=["p"], kind="mor"
    )
    table.insert(rows)
    # In every slice a row goes; among them the one with the least x of all, which then is another slice's.
    changed = rows.filter(pc.is_in(rows["id"], pa.array([0, 1, 2, 3])))
    later = pa.array([1000] * 4, pa.int64())
    table.upsert(changed.set_column(3, "x", pa.array([200] * 4, pa.int64())).set_column(2, "ts", later))
    monkeypatch.setattr(aggregating, "_DRIVER_BYTES", -1)
    read: list[str] = []
    whole = HudiSliceReader.base_rows

    def base_rows(self: HudiSliceReader, slice_: FileSlice, dropped: Any) -> Any:
        read.append(slice_.group.partition)
        return whole(self, slice_, dropped)

    monkeypatch.setattr(HudiSliceReader, "base_rows", base_rows)
    bounds = [{"function": f, "column": ["x"]} for f in ("min", "max")]
    request = {"aggregates": [star(), *bounds], "group_by": [], "parallelism": 1}
    target = opened(tmp_path / "t")
    plan = plan_aggregate(target, request, VERSION)
    assert [len(task["payload"]) > 0 for task in plan["tasks"]] == [True]
    assert answer(target, request) == by_rows(target.scan.to_arrow(), request) == [(400, 1, 399)]
    assert 1 <= len(read) < 4


def test_a_base_file_is_read_until_its_bounds_are_found_and_all_its_rows_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = list(range(400))
    rows = pa.table({"id": ids, "ts": ids, "x": [i + 1 if i % 2 else 400 - i for i in ids]})
    table = headwater.create(tmp_path / "t", schema=rows.schema, key="id", ordering="ts", kind="mor")
    table.insert(rows)
    table.upsert(rows.slice(200, 1).set_column(1, "ts", pa.array([1000])).set_column(2, "x", pa.array([200])))
    monkeypatch.setattr(aggregating, "_DRIVER_BYTES", -1)
    read: list[int] = []
    whole = HudiSliceReader.base_rows

    def in_parts(self: HudiSliceReader, slice_: FileSlice, dropped: Any) -> Any:
        for found in whole(self, slice_, dropped):
            for start in range(0, found.num_rows, 20):
                read.append(start)
                yield found.slice(start, 20)

    monkeypatch.setattr(HudiSliceReader, "base_rows", in_parts)
    target = opened(tmp_path / "t")
    greatest = {"aggregates": [star(), {"function": "max", "column": ["x"]}], "group_by": []}
    assert answer(target, greatest) == [(400, 400)]
    assert read == [0]
    both = {"aggregates": [*greatest["aggregates"], {"function": "min", "column": ["x"]}], "group_by": []}
    assert answer(target, both) == by_rows(target.scan.to_arrow(), both) == [(400, 400, 2)]


def key_count() -> dict[str, Any]:
    return {"function": "count", "column": ["_hoodie_record_key"]}


def star() -> dict[str, Any]:
    return {"function": "count_star", "column": []}


def test_option_turns_it_off() -> None:
    target = opened(TABLES[0].path(), **{"push-down-aggregates": "false"})
    plan = plan_aggregate(target, {"aggregates": [star()], "group_by": []}, VERSION)
    assert not plan["supported"]


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.5, None, float("nan")], 1.5, float("nan")),
        ([float("nan"), float("nan")], float("nan"), float("nan")),
        ([float("-inf"), float("inf")], float("-inf"), float("inf")),
        ([None, None], None, None),
        ([], None, None),
    ],
)
def test_nan_is_greater_than_any_number(values: list[Any], low: Any, high: Any) -> None:
    table = pa.schema([("x", pa.float64())])
    tally = Tally(AggregateSpec.of(table, [Aggregate("min", ("x",)), Aggregate("max", ("x",))], []))
    for value in values:
        tally.add_batch((), pa.record_batch([pa.array([value], pa.float64())], ["x"]), {})
    whole = Tally(tally.spec)
    whole.add_batch((), pa.record_batch([pa.array(values, pa.float64())], ["x"]), {})
    for one in (tally, whole):
        assert same(rows_of(one.to_batch()), [(low, high)])


def test_text_is_ordered_by_its_bytes() -> None:
    table = pa.schema([("s", pa.string()), ("b", pa.binary())])
    asked = [Aggregate(f, (c,)) for c in ("s", "b") for f in ("min", "max")]
    tally = Tally(AggregateSpec.of(table, asked, []))
    texts = ["\U0001f600", "￿", "Z", "a"]
    tally.add_batch((), pa.record_batch([pa.array(texts), pa.array([t.encode() for t in texts])], ["s", "b"]), {})
    assert rows_of(tally.to_batch()) == [("Z", "\U0001f600", b"Z", "\U0001f600".encode())]


def test_loose_bounds_are_no_answer_but_counts_are() -> None:
    table = pa.schema([("x", pa.int64())])
    loose = {"x": ColumnStatistics(1, 9, null_count=2, value_count=5)}
    tally = Tally(AggregateSpec.of(table, [Aggregate("max", ("x",))], []))
    assert not tally.add_known((), 5, loose, {})
    assert rows_of(tally.to_batch()) == [(None,)]
    tally = Tally(AggregateSpec.of(table, [Aggregate("count", ("x",))], []))
    assert tally.add_known((), 5, loose, {})
    assert rows_of(tally.to_batch()) == [(3,)]


def test_no_rows_is_one_row_without_groups_and_none_with_them() -> None:
    table = pa.schema([("p", pa.string()), ("x", pa.int64())])
    asked = [Aggregate("count_star"), Aggregate("min", ("x",))]
    assert Tally(AggregateSpec.of(table, asked, [])).to_rows() == [[0, None]]
    assert Tally(AggregateSpec.of(table, asked, ["p"])).to_rows() == []


def test_spec_survives_its_json() -> None:
    table = pa.schema([("p", pa.date32()), ("x", pa.decimal128(9, 2))])
    spec = AggregateSpec.of(table, [Aggregate("count_star"), Aggregate("max", ("x",))], ["p"])
    assert AggregateSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    "one", [Aggregate("sum", ("x",)), Aggregate("min", ("s",)), Aggregate("max", ("nope",)), Aggregate("count", ())]
)
def test_what_is_left_to_spark(one: Aggregate) -> None:
    table = pa.schema([("x", pa.int64()), ("s", pa.struct([("a", pa.int8())]))])
    with pytest.raises(NotSupported):
        AggregateSpec.of(table, [one], [])


def test_fields_inside_structs() -> None:
    kind = pa.struct([("a", pa.int8())])
    spec = AggregateSpec.of(
        pa.schema([("s", kind)]), [Aggregate("count", ("s", "a")), Aggregate("max", ("s", "a"))], []
    )
    tally = Tally(spec)
    tally.add_batch((), pa.record_batch([pa.array([{"a": 1}, None, {"a": None}, {"a": 7}], kind)], ["s"]), {})
    assert rows_of(tally.to_batch()) == [(2, 7)]
    assert arrow_type(spark_type(pa.int8())) == spec.value_types[1]


def test_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    table = next(table for table in TABLES if table.kind == "MOR")
    request = {"aggregates": [star(), {"function": "max", "column": ["_hoodie_commit_time"]}], "group_by": []}
    target = opened(table.path())
    expected = by_rows(target.scan.to_arrow(), request)
    with Sidecar() as sidecar:
        handle = sidecar.open(table.path())["handle"]
        whole = sidecar.ask("aggregate_plan", handle=handle, predicates=[], **request)
        assert whole["complete"]
        assert [tuple(row) for row in whole["rows"]] == expected
        # What a larger table would be given to executors as.
        monkeypatch.setattr(aggregating, "MOST_FOOTERS", 0)
        monkeypatch.setattr(aggregating, "_DRIVER_BYTES", -1)
        parts = plan_aggregate(target, request, headwater.__version__)
        assert not parts["complete"]
        sidecar.ask("scan", scan_id=parts["scan_id"], blobs=[base64.b64decode(parts["scan"])])
        payloads = [task["payload"] for task in parts["tasks"]]
        found = sidecar.stream("aggregate", scan_id=parts["scan_id"], payloads=payloads)
        assert found.rows is not None
        assert rows_of(found.rows.to_batches()[0]) == expected
