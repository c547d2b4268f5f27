"""The connector's jars: which one fits a Spark, and what a jar says about itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.errors import ConnectorNotFound, JavaNotFound, WrongConnector

FOLDER = Path(__file__).parent / "jars"
SUPPORTED = ("3.5", "4.0", "4.1", "4.2", "4.3")
OLDEST_JAVA = 17


def minor_of(version: str) -> str:
    """
    >>> minor_of("4.3.0"), minor_of("3.5.9-amzn-0")
    ('4.3', '3.5')
    """
    return ".".join(version.split(".")[:2])


def jar_for(version: str, folder: Path | None = None) -> Path:
    """The jar for a version of Spark."""
    minor = minor_of(version)
    jar = (folder or FOLDER) / f"headwater-spark-{minor}.jar"
    if jar.is_file():
        return jar
    if minor not in SUPPORTED:
        raise ConnectorNotFound(
            f"Spark {version} is running, and the connector is built for Spark {', '.join(SUPPORTED)}; install one of "
            f'these (pip install "pyspark=={SUPPORTED[-1]}.*"), or a newer headwater'
        )
    raise ConnectorNotFound(
        f"{jar}: the connector for Spark {minor} is not there; in a source checkout run `make connector` with this "
        "Spark installed (it needs a JDK), otherwise install headwater again from its wheel, which has all jars"
    )


def spark_version() -> str:
    """The version of the Spark that PySpark would start: SPARK_HOME's where that is set, else its own."""
    home = os.environ.get("SPARK_HOME")
    for jar in sorted(Path(home, "jars").glob("spark-core_*.jar")) if home else ():
        found = re.match(r"spark-core_[\d.]+-(.+)\.jar", jar.name)
        if found:
            return found[1]
    import pyspark

    return str(pyspark.__version__)


@dataclass(frozen=True, slots=True)
class ConnectorJar:
    """A jar with the connector in it, wherever it came from."""

    place: str
    spark: str | None
    """The minor version of Spark that it was built for; None where it does not say or cannot be looked into."""

    @classmethod
    def of(cls, url: str) -> ConnectorJar:
        """What is known of the jar behind the URL of a class in it.

        >>> ConnectorJar.of("jar:file:/no/such%20place/x.jar!/io/X.class").place
        '/no/such place/x.jar'
        """
        inner = url.removeprefix("jar:").split("!/", 1)[0]
        place = unquote(urlsplit(inner).path) if inner.startswith("file:") else inner
        try:
            with zipfile.ZipFile(place) as jar:
                text = jar.read("META-INF/MANIFEST.MF").decode("utf-8", "replace")
        except (OSError, KeyError, zipfile.BadZipFile):
            return cls(place, None)
        found = re.search(r"^Headwater-Spark: *(\S+)", text, re.MULTILINE)
        return cls(place, None if found is None else found[1])


def check_jars(found: Sequence[ConnectorJar], version: str) -> None:
    """Refuses a class path with several connectors, or with one for another Spark."""
    places = sorted({jar.place for jar in found})
    if len(places) > 1:
        raise WrongConnector(
            f"the class path has {len(places)} connectors: {', '.join(places)}; keep the one for Spark "
            f"{minor_of(version)} and take the others out of spark.jars, --jars and the jars folder of Spark"
        )
    for jar in found:
        if jar.spark is not None and jar.spark != minor_of(version):
            raise WrongConnector(
                f"{jar.place}: is built for Spark {jar.spark}, and Spark {version} is running; take it off the "
                "class path and let headwater.configure choose"
            )


def check_java() -> None:
    """Refuses to start where PySpark would find no Java, or one that cannot load the connector's classes."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    todo = f"install Java {OLDEST_JAVA} or newer and let JAVA_HOME point to it"
    if java is None:
        where = f"JAVA_HOME={home} has none" if home else "there is none on PATH, and JAVA_HOME is not set"
        raise JavaNotFound(f"Spark needs Java: {where}; {todo}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaNotFound(f"{java}: cannot be run ({error}); {todo}") from error
    check_java_version(said.stderr + said.stdout, java, todo)


def check_java_version(said: str, java: str, todo: str | None = None) -> None:
    """
    >>> check_java_version('openjdk version "17.0.1" 2021-10-19', "java")
    >>> check_java_version('java version "1.8.0_392"', "/opt/java")
    Traceback (most recent call last):
    headwater.errors.JavaNotFound: /opt/java: is Java 8; the connector needs 17 or newer: ...
    """
    todo = todo or f"install Java {OLDEST_JAVA} or newer and let JAVA_HOME point to it"
    found = re.search(r'(?:version "|^)(?:1\.)?(\d+)', said, re.MULTILINE)
    if found is None:
        raise JavaNotFound(f"{java}: does not say which Java it is ({said.strip()[:200]!r}); {todo}")
    if int(found[1]) < OLDEST_JAVA:
        raise JavaNotFound(f"{java}: is Java {found[1]}; the connector needs {OLDEST_JAVA} or newer: {todo}")
