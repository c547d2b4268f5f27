"""`headwater.configure`: a Spark session that reads through Headwater, checked before anyone queries it.

    spark = headwater.configure(SparkSession.builder, catalogs={"lake": "/data/lake"}).getOrCreate()

Nothing of PySpark is imported before `getOrCreate`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater import arguments
from headwater.errors import (
    ConnectorNotFound,
    InvalidArgument,
    MissingDependency,
    SparkSetupError,
    WrongConnector,
    WrongType,
)
from headwater.spark.connector import ConnectorJar, check_jars, check_java, check_java_version, jar_for, spark_version
from headwater.spark.seam import enable_writes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE_CLASS = "io/headwater/spark/HeadwaterSource.class"
CATALOG = "io.headwater.spark.HeadwaterCatalog"
EXTENSIONS = "io.headwater.spark.HeadwaterExtensions"
SESSION_CATALOG = "io.headwater.spark.HeadwaterSessionCatalog"
_PREFIX = "spark.sql.catalog."
_STATIC = ("spark.jars",)


def configure(
    builder: Any = None,
    *,
    catalogs: Mapping[str, str | os.PathLike[str]] | None = None,
    session_catalog: bool = False,
    python: str | None = None,
) -> SessionBuilder:
    """A session builder whose session reads tables by `format("headwater")` and by name; other tables are left alone.

    Parameters
    ----------
    builder
        `SparkSession.builder`, with whatever you have set on it; by default a new one.
    catalogs
        Names for folders of tables: `{"lake": "/data"}` makes `lake.db.trips` the table in `/data/db/trips`.
    session_catalog
        Whether tables `USING headwater` and `USING hudi` of Spark's own catalog are read through Headwater too.
    python
        The Python that has Headwater installed, on every machine of the cluster; by default PySpark's own.
    """
    found: dict[str, str] = {}
    if catalogs is not None and not isinstance(catalogs, Mapping):
        raise WrongType(f'catalogs={catalogs!r}; give a mapping such as {{"lake": "/data/lake"}}')
    for name, place in (catalogs or {}).items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise InvalidArgument(f"catalogs: {name!r} is no name for SQL; use letters, digits and _")
        if name.lower() in ("headwater", "spark_catalog", "system"):
            raise InvalidArgument(f"catalogs: the name {name!r} is taken; choose another")
        text = arguments.location(place)
        found[name] = (
            text if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text) else os.path.abspath(os.path.expanduser(text))
        )
    arguments.flag("session_catalog", session_catalog)
    if python is not None and not isinstance(python, str):
        raise WrongType(f"python={python!r}; give the path of an interpreter")
    return SessionBuilder(builder, found, session_catalog, python)


class SessionBuilder:
    """Like the builder that it holds: every other call goes to that one."""

    def __init__(self, builder: Any, catalogs: Mapping[str, str], session_catalog: bool, python: str | None) -> None:
        self._builder = builder
        self._catalogs = dict(catalogs)
        self._session_catalog = session_catalog
        self._python = python

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._inner(), name)
        if not callable(found):
            return found

        def call(*given: Any, **named: Any) -> Any:
            result = found(*given, **named)
            if result is self._builder or type(result) is type(self._builder):
                self._builder = result
                return self
            return result

        return call

    def getOrCreate(self) -> SparkSession:  # noqa: N802 - PySpark's name
        """The session, new or running; an error where it could not read through Headwater."""
        builder = self._inner()
        options: dict[str, Any] = dict(getattr(builder, "_options", {}))
        remote = _remote(options)
        running = None if remote else _running()
        if running is not None:
            # Before its configuration is touched.
            check_session(running, started_before=True)
        elif not remote:
            check_java()
        for name, value in self.settings(options, remote=remote, running=running is not None).items():
            builder = builder.config(name, value)
        session: SparkSession = builder.getOrCreate()
        if remote:
            check_remote(session)
            return session
        check_session(session)
        _register_python(session)
        enable_writes(session)
        return session

    def settings(self, options: Mapping[str, Any], *, remote: bool = False, running: bool = False) -> dict[str, str]:
        """What is added to the builder's own options."""
        added = {f"{_PREFIX}headwater": CATALOG}
        for name, place in self._catalogs.items():
            added |= {_PREFIX + name: CATALOG, f"{_PREFIX}{name}.warehouse": place}
        if self._session_catalog:
            added[f"{_PREFIX}spark_catalog"] = SESSION_CATALOG
        for name, value in added.items():
            if str(options.get(name, value)) != value:
                raise SparkSetupError(
                    f"{name} is {options[name]}, and Headwater would make it {value}; choose another name for one of "
                    "the two" + (", or leave session_catalog out" if name.endswith("spark_catalog") else "")
                )
        if not remote and not running:
            added["spark.sql.extensions"] = _with_extensions(options.get("spark.sql.extensions"))
            added["spark.jars"] = _with_jar(options.get("spark.jars"), jar_for(spark_version()))
        python = self._python or options.get("spark.headwater.python")
        if python is None and not remote:
            python = options.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
        if python is not None:
            added["spark.headwater.python"] = str(python)
        return added

    def _inner(self) -> Any:
        if self._builder is None:
            self._builder = _pyspark().SparkSession.builder
        return self._builder


def check_session(session: SparkSession, *, started_before: bool = False) -> None:
    """Refuses a session of this process whose class path lacks the connector, or has a wrong one."""
    jvm: Any = getattr(session, "_jvm", None)
    if jvm is None:
        raise SparkSetupError("the Spark session has been stopped; make a new one")
    version = str(session.version)
    check_java_version(str(jvm.java.lang.System.getProperty("java.specification.version")), "the running session")
    found = jvm.java.lang.Thread.currentThread().getContextClassLoader().getResources(SOURCE_CLASS)
    jars = []
    while found.hasMoreElements():
        jars.append(ConnectorJar.of(str(found.nextElement().toString())))
    if not jars:
        raise ConnectorNotFound(_missing(version, started_before))
    check_jars(jars, version)


def _missing(version: str, started_before: bool) -> str:
    jar = jar_for(version)
    if started_before:
        return (
            "a Spark session is already running in this process, and was started without Headwater's connector; call "
            f"spark.stop() before headwater.configure(…).getOrCreate(), or start Spark with --jars {jar}"
        )
    said = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if "--jars" in said:
        return f"PYSPARK_SUBMIT_ARGS has --jars, which wins over spark.jars; add {jar} to the list there"
    return f"the session started without {jar} on its class path; start Spark with --jars {jar}"


def check_remote(session: SparkSession) -> None:
    """Refuses a Spark Connect session whose server has no connector."""
    try:
        session.read.format("headwater").load("/headwater-connector-check").schema  # noqa: B018 - asks the server
    except Exception as error:
        said = str(error)
        if not re.search(r"DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source|ClassNotFoundException", said):
            return  # the connector is there, and says that this is no table
        version = str(session.version)
        raise ConnectorNotFound(
            f"the Spark Connect server (Spark {version}) has no Headwater connector: a client cannot add it. Start the "
            f"server with --jars headwater-spark-{'.'.join(version.split('.')[:2])}.jar, or read without it by "
            "headwater.spark.register_fallback(spark) (Spark 4.0 and newer, slower)"
        ) from error


def _remote(options: Mapping[str, Any]) -> bool:
    """Whether the session will be of a Spark Connect server that somebody else started."""
    url = str(options.get("spark.remote") or os.environ.get("SPARK_REMOTE") or "")
    return url.startswith("sc://")


def _running() -> SparkSession | None:
    found = _pyspark().SparkSession.getActiveSession()
    context: Any = getattr(found, "sparkContext", None) if found is not None else None
    if found is not None and (context is None or getattr(context, "_jsc", None) is not None):
        return found  # type: ignore[no-any-return]
    from pyspark import SparkContext

    active: Any = SparkContext._active_spark_context
    if active is None or active._jsc is None:
        return None
    return _pyspark().SparkSession(active)  # type: ignore[no-any-return]


def _with_jar(given: object, jar: Path) -> str:
    """The jars that were asked for, and ours."""
    listed = [name.strip() for name in str(given or _default("spark.jars")).split(",") if name.strip()]
    for name in listed:
        if re.fullmatch(r"headwater-spark-[\d.]+\.jar", name.rsplit("/", 1)[-1]) and not _same(name, jar):
            raise WrongConnector(
                f"spark.jars names {name}, and headwater.configure adds {jar}; take the first out: two connectors on "
                "one class path hide each other"
            )
    if not any(_same(name, jar) for name in listed):
        listed.append(str(jar))
    return ",".join(listed)


def _with_extensions(given: object) -> str:
    """The extensions of Spark that were asked for, and ours, which INSERT needs."""
    listed = [name.strip() for name in str(given or _default("spark.sql.extensions")).split(",") if name.strip()]
    return ",".join(dict.fromkeys([*listed, EXTENSIONS]))


def _same(name: str, jar: Path) -> bool:
    path = Path(name.removeprefix("file://").removeprefix("file:"))
    return path == jar or (path.is_file() and path.samefile(jar))


def _default(name: str) -> str:
    """A setting of spark-defaults.conf, which one of ours would hide."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else "")
    path = Path(folder, "spark-defaults.conf")
    if not folder or not path.is_file():
        return ""
    found = re.search(rf"^\s*{re.escape(name)}[\s=]+(\S+)", path.read_text("utf-8", "replace"), re.MULTILINE)
    return found[1] if found else ""


def _register_python(session: Any) -> None:
    """Let `use.dsv2=false` find the Python Data Source, once a session, where Spark has such sources."""
    if int(str(session.version).split(".", 1)[0]) < 4 or getattr(session, "_headwater_python", False):
        return
    from headwater.spark.fallback import register_python

    register_python(session)
    session._headwater_python = True


def _pyspark() -> Any:
    try:
        import pyspark.sql
    except ImportError as error:
        raise MissingDependency("pyspark is not installed; install headwater[spark]") from error
    return pyspark.sql
