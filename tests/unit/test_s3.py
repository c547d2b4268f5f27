"""Tables on S3, as a server in this process speaks it: conditional puts, no folders, and nobody's listing kept."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

import headwater
from headwater.errors import AlreadyThere, StorageError, TableExists
from headwater.storage import Storage
from headwater.storage.fsspec_systems import without_cache
from headwater.table import Table

BUCKET, KEY, SECRET, REGION = "lake", "a-key", "a-secret", "eu-west-1"
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string()), ("x", pa.float64())])


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    found = f"http://{host}:{port}"
    _s3fs(found).mkdir(BUCKET)
    yield found
    server.stop()


def _s3fs(endpoint: str) -> Any:
    options = {"endpoint_url": endpoint, "client_kwargs": {"region_name": REGION}}
    return fsspec.filesystem("s3", key=KEY, secret=SECRET, **options)


def _pyarrow(endpoint: str) -> pafs.S3FileSystem:
    place = endpoint.removeprefix("http://")
    return pafs.S3FileSystem(access_key=KEY, secret_key=SECRET, region=REGION, scheme="http", endpoint_override=place)


WAYS: dict[str, Callable[[str], dict[str, Any]]] = {
    "s3": lambda endpoint: {"scheme": "s3://"},
    "s3a": lambda endpoint: {"scheme": "s3a://"},
    "s3fs": lambda endpoint: {"scheme": "", "filesystem": _s3fs(endpoint)},
    "pyarrow": lambda endpoint: {"scheme": "", "filesystem": _pyarrow(endpoint)},
    "pyarrow around s3fs": lambda endpoint: {
        "scheme": "",
        "filesystem": pafs.PyFileSystem(pafs.FSSpecHandler(_s3fs(endpoint))),
    },
}


@pytest.fixture
def place(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], dict[str, Any]]:
    """Where a table of a name is, in one of the ways to say so."""

    def found(way: str, name: str) -> dict[str, Any]:
        if way.startswith("s3") and way != "s3fs":
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
            monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
        given = WAYS[way](endpoint)
        return {"path": f"{given.pop('scheme')}{BUCKET}/{name}", **given}

    return found


def rows(*values: tuple[str, int, str, float]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, value, strict=True)) for value in values], SCHEMA)


def numbers(table: Table, **more: Any) -> dict[str, float]:
    found = table.scan(columns=["id", "x"], **more).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["x"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("way", "kind", "version", "index"),
    [
        ("s3", "cow", 6, "bloom"),
        ("s3", "mor", 9, "record_index"),
        ("s3a", "mor", 8, {"bucket": 2}),
        ("s3fs", "cow", 9, "record_index"),
        ("pyarrow", "mor", 9, "bloom"),
        ("pyarrow around s3fs", "mor", 6, "simple"),
    ],
)
def test_a_table_lives_on_s3(
    place: Callable[[str, str], dict[str, Any]], way: str, kind: str, version: int, index: Any
) -> None:
    where = place(way, f"life/{way}-{kind}-{version}")
    table = headwater.create(
        **where, schema=SCHEMA, key="id", ordering="ts", partition_by="city", kind=kind, version=version, index=index
    )
    table.insert(rows(("a", 1, "x", 1.0), ("b", 1, "x", 2.0), ("c", 1, "y", 3.0)))
    first = table.hudi.timeline.commits[-1].requested_at
    table.upsert(rows(("b", 2, "x", 20.0), ("d", 2, "y", 4.0), ("c", 0, "y", 0.0)))
    table.delete(["a"])
    opened = headwater.open(**where)
    assert numbers(opened) == {"b": 20.0, "c": 3.0, "d": 4.0}
    assert numbers(opened, as_of=first) == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert numbers(headwater.open(**where, metadata=False)) == numbers(opened)
    assert opened.lookup(["d"]).column("x").to_pylist() == [4.0]
    with pytest.raises(TableExists):
        headwater.create(**where, schema=SCHEMA, key="id")


@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_commits_of_others_are_seen(place: Callable[[str, str], dict[str, Any]], way: str, metadata: bool) -> None:
    """fsspec keeps listings; from a kept one a reader would see the table as it was for ever."""
    where = place(way, f"others/{way}-{metadata}")
    other = place("pyarrow", f"others/{way}-{metadata}")
    writer = headwater.create(**other, schema=SCHEMA, key="id", ordering="ts", partition_by="city")
    reader = headwater.open(**where, metadata=metadata)
    assert numbers(reader) == {}
    writer.insert(rows(("a", 1, "x", 1.0)))
    assert numbers(reader.refresh()) == {"a": 1.0}
    assert numbers(headwater.open(**where, metadata=metadata)) == {"a": 1.0}
    headwater.open(**where).insert(rows(("b", 1, "y", 2.0)))
    writer.refresh().upsert(rows(("b", 2, "y", 3.0)))
    assert numbers(headwater.open(**where, metadata=metadata)) == {"a": 1.0, "b": 3.0}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_is_made_once(place: Callable[[str, str], dict[str, Any]], way: str) -> None:
    where = place(way, f"once/{way}")
    storage = Storage.at(where.pop("path"), **where)
    storage.create("a/b", b"first")
    with pytest.raises(AlreadyThere):
        storage.create("a/b", b"second")
    assert storage.read_bytes("a/b") == b"first"
    storage.replace("a/b", b"third, and longer")
    assert storage.read_bytes("a/b") == b"third, and longer"
    storage.delete("a/b")
    assert storage.find("a/b") is None


def test_credentials_that_only_pyarrow_has_are_refused_for_writing(endpoint: str) -> None:
    given = pafs.S3FileSystem(role_arn="arn:aws:iam::1:role/r", region=REGION, endpoint_override=endpoint)
    with pytest.raises(StorageError, match="role_arn"):
        Storage.at(f"{BUCKET}/t", filesystem=given).create("a", b"")


def test_a_filesystem_around_another_keeps_no_listing_either(endpoint: str) -> None:
    inner = _s3fs(endpoint)
    given = DirFileSystem(BUCKET, inner)
    assert without_cache(given) is given
    assert not inner.dircache.use_listings_cache


def test_the_given_filesystem_stays_as_it_was() -> None:
    given = fsspec.filesystem("memory", skip_instance_cache=True)
    found = without_cache(given)
    assert given.dircache.use_listings_cache
    assert not found.dircache.use_listings_cache


class Careless(S3FileSystem):
    """Takes a conditional put for an ordinary one, as some servers that speak S3 do."""

    async def _pipe_file(self, path: str, data: bytes, *, mode: str = "overwrite", **more: Any) -> Any:
        return await super()._pipe_file(path, data, **more)


class Old(S3FileSystem):
    """Has no conditional put, as in releases before 2024.12, and passes over what it does not know."""

    async def _pipe_file(self, path: str, data: bytes, **more: Any) -> Any:
        raise AssertionError("nothing may be written")


@pytest.mark.parametrize(("kind", "message"), [(Careless, "If-None-Match"), (Old, "pip install --upgrade")])
def test_a_store_that_puts_over_what_is_there_is_not_written_to(endpoint: str, kind: Any, message: str) -> None:
    store = kind(key=KEY, secret=SECRET, endpoint_url=endpoint, client_kwargs={"region_name": REGION})
    with pytest.raises(StorageError, match=message):
        Storage.at(f"{BUCKET}/{kind.__name__}", filesystem=store).create("a", b"")
    assert not _s3fs(endpoint).exists(f"{BUCKET}/{kind.__name__}")


def test_a_server_that_is_gone_is_an_error_of_the_storage(endpoint: str) -> None:
    """botocore has classes of its own for what the network does."""
    gone = S3FileSystem(
        key=KEY,
        secret=SECRET,
        endpoint_url="http://127.0.0.1:9",
        client_kwargs={"region_name": REGION},
        config_kwargs={"retries": {"max_attempts": 0}, "connect_timeout": 1},
    )
    gone.retries = 1
    storage = Storage.at(f"{BUCKET}/t", filesystem=gone)
    for call in (
        lambda: storage.create("a", b""),
        lambda: storage.list(""),
        lambda: storage.find("a"),
        lambda: storage.read_bytes("a"),
        lambda: storage.replace("a", b"x"),
        lambda: storage.delete("a"),
    ):
        with pytest.raises(StorageError):
            call()
    with pytest.raises(StorageError):
        headwater.open(f"{BUCKET}/t", filesystem=gone)


def test_files_of_fsspec_have_their_times(endpoint: str) -> None:
    """Version 6 has no other completion times."""
    storages = [Storage.at(f"{BUCKET}/times", filesystem=one) for one in (_s3fs(endpoint), _pyarrow(endpoint))]
    storages[0].create("a", b"x")
    first, second = (storage.find("a") for storage in storages)
    assert first is not None
    assert second is not None
    assert first.modified_at == second.modified_at > 1_700_000_000_000
    assert [entry.modified_at for entry in storages[0].list("")] == [first.modified_at]


def test_a_storage_of_fsspec_goes_to_other_processes(endpoint: str) -> None:
    storage = Storage.at(f"{BUCKET}/pickled", filesystem=_s3fs(endpoint))
    storage.create("a", b"x")
    other = pickle.loads(pickle.dumps(storage))
    assert other.read_bytes("a") == b"x"
    assert not other.filesystem.handler.fs.dircache.use_listings_cache
