"""`headwater.configure`: what it sets, and what it refuses; no JVM is started here."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.errors import (
    ConnectorNotFound,
    HeadwaterError,
    InvalidArgument,
    JavaNotFound,
    SparkSetupError,
    WrongConnector,
    WrongType,
)
from headwater.spark import connector, session


class Builder:
    """What of PySpark's builder counts."""

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}

    def config(self, key: str, value: Any) -> Builder:
        self._options[key] = value
        return self

    def appName(self, name: str) -> Builder:  # noqa: N802
        return self.config("spark.app.name", name)

    def getOrCreate(self) -> str:  # noqa: N802
        return "the session"


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a jar for each Spark."""
    folder = tmp_path / "jars"
    folder.mkdir()
    for minor in connector.SUPPORTED:
        make_jar(folder / f"headwater-spark-{minor}.jar", minor)
    monkeypatch.setattr(connector, "FOLDER", folder)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return folder


def make_jar(path: Path, minor: str) -> None:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\nHeadwater-Spark: {minor}\r\n\r\n")
        jar.writestr(session.SOURCE_CLASS, b"")


def settings(builder: Builder | None = None, **options: Any) -> dict[str, str]:
    made = headwater.configure(builder or Builder(), **options)
    return made.settings((builder or Builder())._options)


def test_import_of_headwater_needs_no_pyspark() -> None:
    code = "import headwater, sys; headwater.configure; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_jar_of_the_running_spark_is_added(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("3.5.9", "4.0.1", "4.3.0"):
        monkeypatch.setattr(session, "spark_version", lambda version=version: version)
        assert settings()["spark.jars"] == str(jars / f"headwater-spark-{version[:3]}.jar")


def test_other_jars_are_kept(jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_version", lambda: "4.3.0")
    ours = str(jars / "headwater-spark-4.3.jar")
    assert settings(Builder().config("spark.jars", "/a.jar, /b.jar"))["spark.jars"] == f"/a.jar,/b.jar,{ours}"
    assert settings(Builder().config("spark.jars", f"/a.jar,{ours}"))["spark.jars"] == f"/a.jar,{ours}"
    (tmp_path / "spark-defaults.conf").write_text("# spark.jars /no.jar\nspark.jars   /default.jar\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert settings()["spark.jars"] == f"/default.jar,{ours}"


def test_catalogs_are_folders_with_names(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_version", lambda: "4.3.0")
    found = settings(catalogs={"lake": "tables", "cloud": "s3://bucket/tables"})
    assert found["spark.sql.catalog.headwater"] == session.CATALOG
    assert found["spark.sql.catalog.lake"] == session.CATALOG
    assert found["spark.sql.catalog.lake.warehouse"] == os.path.abspath("tables")
    assert found["spark.sql.catalog.cloud.warehouse"] == "s3://bucket/tables"
    assert "spark.sql.catalog.spark_catalog" not in found
    assert settings(session_catalog=True)["spark.sql.catalog.spark_catalog"] == session.SESSION_CATALOG


def test_python_is_ours_unless_somebody_chose_one(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_version", lambda: "4.3.0")
    name = "spark.headwater.python"
    assert settings()[name] == sys.executable
    assert settings(Builder().config("spark.pyspark.python", "/p"))[name] == "/p"
    assert settings(Builder().config(name, "/q"))[name] == "/q"
    assert settings(Builder().config(name, "/q"), python="/r")[name] == "/r"


def test_nothing_else_is_set(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_version", lambda: "4.3.0")
    expected = ["spark.headwater.python", "spark.jars", "spark.sql.catalog.headwater", "spark.sql.extensions"]
    assert sorted(settings()) == expected


def test_other_extensions_are_kept(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_version", lambda: "4.3.0")
    given = Builder().config("spark.sql.extensions", f"a.B,{session.EXTENSIONS}, c.D")
    assert settings(given)["spark.sql.extensions"] == f"a.B,{session.EXTENSIONS},c.D"
    assert (
        settings(Builder().config("spark.sql.extensions", "a.B"))["spark.sql.extensions"] == f"a.B,{session.EXTENSIONS}"
    )


def test_other_calls_go_to_the_builder() -> None:
    inner = Builder()
    made = headwater.configure(inner)
    assert made.appName("x").config("a", "b") is made
    assert inner._options == {"spark.app.name": "x", "a": "b"}


def test_server_of_spark_connect_is_not_told_about_local_paths(jars: Path) -> None:
    found = headwater.configure(Builder()).settings({}, remote=True)
    assert list(found) == ["spark.sql.catalog.headwater"]


def test_no_jar_for_this_spark(jars: Path) -> None:
    with pytest.raises(ConnectorNotFound, match=r"Spark 3\.3\.2 is running.* built for Spark 3\.5, 4\.0"):
        connector.jar_for("3.3.2")
    (jars / "headwater-spark-4.0.jar").unlink()
    with pytest.raises(FileNotFoundError, match=r"connector for Spark 4\.0 is not there; .*make connector"):
        connector.jar_for("4.0.1")


def test_spark_home_says_which_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.4.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert connector.spark_version() == "3.5.4"
    monkeypatch.delenv("SPARK_HOME")
    pyspark = pytest.importorskip("pyspark")
    assert connector.spark_version() == pyspark.__version__


def test_wrong_and_doubled_jars(jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*names: str) -> list[connector.ConnectorJar]:
        return [connector.ConnectorJar.of(f"jar:file:{jars / name}!/{session.SOURCE_CLASS}") for name in names]

    connector.check_jars(found("headwater-spark-4.3.jar", "headwater-spark-4.3.jar"), "4.3.1")
    with pytest.raises(WrongConnector, match=r"built for Spark 4\.2, and Spark 4\.3\.0 is running"):
        connector.check_jars(found("headwater-spark-4.2.jar"), "4.3.0")
    with pytest.raises(
        WrongConnector, match=r"has 2 connectors: .*4\.2\.jar, .*4\.3\.jar; keep the one for Spark 4\.3"
    ):
        connector.check_jars(found("headwater-spark-4.2.jar", "headwater-spark-4.3.jar"), "4.3.0")
    monkeypatch.setattr(session, "spark_version", lambda: "4.3.0")
    other = tmp_path / "headwater-spark-4.3.jar"
    make_jar(other, "4.3")
    with pytest.raises(WrongConnector, match="two connectors"):
        settings(Builder().config("spark.jars", str(other)))


def test_catalog_that_somebody_else_has_is_left_alone(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_version", lambda: "4.3.0")
    taken = Builder().config("spark.sql.catalog.spark_catalog", "org.other.Catalog")
    with pytest.raises(SparkSetupError, match=r"spark_catalog is org\.other\.Catalog.*leave session_catalog out"):
        settings(taken, session_catalog=True)
    assert "spark.sql.catalog.spark_catalog" not in settings(taken)


@pytest.mark.parametrize("name", ["a.b", "", "1x", "headwater", "spark_catalog", 3])
def test_catalog_names_that_sql_cannot_say(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="catalogs: "):
        headwater.configure(Builder(), catalogs={name: "/x"})


def test_arguments_of_a_wrong_type() -> None:
    with pytest.raises(WrongType, match="give a mapping"):
        headwater.configure(Builder(), catalogs=["lake"])  # type: ignore[arg-type]
    with pytest.raises(WrongType, match="session_catalog='yes'"):
        headwater.configure(Builder(), session_catalog="yes")  # type: ignore[arg-type]


def fake_java(folder: Path, says: str) -> None:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    binary.chmod(binary.stat().st_mode | stat.S_IEXEC)


def test_java_missing_or_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(JavaNotFound, match=r"JAVA_HOME=.* has none; install Java 17 or newer"):
        connector.check_java()
    fake_java(tmp_path / "old", 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(JavaNotFound, match="is Java 11; the connector needs 17 or newer"):
        connector.check_java()
    fake_java(tmp_path / "new", 'openjdk version "21.0.2" 2024-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    connector.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaNotFound, match="none on PATH"):
        connector.check_java()


class Urls:
    def __init__(self, urls: list[str]) -> None:
        self.left = urls

    def hasMoreElements(self) -> bool:  # noqa: N802
        return bool(self.left)

    def nextElement(self) -> Any:  # noqa: N802
        url = self.left.pop(0)
        return type("Url", (), {"toString": lambda self: url})()


class Running:
    """A session that runs already, seen through the calls that the check makes."""

    version = "4.3.0"

    def __init__(self, *urls: str, java: str = "17") -> None:
        loader = type("Loader", (), {"getResources": lambda self, name: Urls(list(urls))})()
        thread = type("Thread", (), {"getContextClassLoader": lambda self: loader})()
        self._jvm = self
        self.java = type("Java", (), {})()
        self.java.lang = type("Lang", (), {})()
        self.java.lang.System = type("System", (), {"getProperty": staticmethod(lambda name: java)})
        self.java.lang.Thread = type("Threads", (), {"currentThread": staticmethod(lambda: thread)})


def test_running_session_without_the_connector(jars: Path) -> None:
    with pytest.raises(ConnectorNotFound, match=r"already running.*spark\.stop\(\) before"):
        session.check_session(Running(), started_before=True)  # type: ignore[arg-type]
    with pytest.raises(JavaNotFound, match="the running session: is Java 11"):
        session.check_session(Running(java="11"))  # type: ignore[arg-type]
    session.check_session(Running(f"jar:file:{jars}/headwater-spark-4.3.jar!/x"))  # type: ignore[arg-type]


def test_jars_of_the_command_line_win_over_ours(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars /a.jar pyspark-shell")
    with pytest.raises(ConnectorNotFound, match=r"PYSPARK_SUBMIT_ARGS has --jars.*headwater-spark-4\.3\.jar"):
        session.check_session(Running())  # type: ignore[arg-type]


class Remote:
    version = "4.1.2"

    def __init__(self, error: str) -> None:
        self.read = self
        self.error = error

    def format(self, name: str) -> Remote:
        return self

    def load(self, path: str) -> Remote:
        return self

    @property
    def schema(self) -> None:
        raise ValueError(self.error)


def test_spark_connect_server_without_the_connector() -> None:
    missing = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: headwater."
    with pytest.raises(ConnectorNotFound, match=r"server \(Spark 4\.1\.2\) has no .*register_fallback"):
        session.check_remote(Remote(missing))  # type: ignore[arg-type]
    session.check_remote(Remote("TableNotFound: /headwater-connector-check"))  # type: ignore[arg-type]


def test_every_error_is_one_of_ours() -> None:
    for kind in (ConnectorNotFound, WrongConnector, JavaNotFound, SparkSetupError):
        assert issubclass(kind, HeadwaterError)
        assert issubclass(kind, RuntimeError)


class RemoteReader:
    """Of a session's reader what the check asks: a schema, which only the server knows."""

    def __init__(self, says: str) -> None:
        self._says = says

    def format(self, name: str) -> RemoteReader:
        assert name == "headwater"
        return self

    def load(self, path: str) -> RemoteReader:
        return self

    @property
    def schema(self) -> Any:
        raise RuntimeError(self._says)


class RemoteSession:
    def __init__(self, says: str) -> None:
        self.read, self.version = RemoteReader(says), "4.1.2"


class RemoteBuilder(Builder):
    """A builder of Spark Connect sessions."""

    def __init__(self, says: str) -> None:
        super().__init__()
        self._says = says
        self.config("spark.remote", "sc://spark.example:15002")

    def getOrCreate(self) -> Any:  # noqa: N802
        return RemoteSession(self._says)


@pytest.mark.parametrize(
    "says",
    [
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: headwater. Make sure the provider name is correct",
        "org.apache.spark.SparkClassNotFoundException: Failed to find data source: headwater",
    ],
)
def test_spark_connect_server_without_the_jar(says: str) -> None:
    with pytest.raises(ConnectorNotFound) as caught:
        headwater.configure(RemoteBuilder(says)).getOrCreate()
    message = str(caught.value)
    assert "Spark Connect server (Spark 4.1.2) has no Headwater connector" in message
    assert "--jars headwater-spark-4.1.jar" in message, "what to do on the server"
    assert "register_fallback(spark)" in message, "what to do without it"
    assert isinstance(caught.value, HeadwaterError)


def test_spark_connect_server_with_the_jar() -> None:
    session_ = headwater.configure(RemoteBuilder("TableNotFound: /headwater-connector-check is no table")).getOrCreate()
    assert isinstance(session_, RemoteSession)
