"""Builds the Spark connector: one jar for each minor version of Spark, with `javac` against the jars inside `pyspark`.

    python connector/build.py                    for the pyspark of this interpreter
    python connector/build.py --all              for every version that is supported; each pyspark is fetched once
    python connector/build.py --minor 3.5        for one of them

A jar is built anew only when its sources have changed: their hash is in its manifest. What a crash leaves behind is a
folder of temporary files, never half a jar.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SOURCES = HERE / "src"
JARS = ROOT / "src" / "headwater" / "spark" / "jars"
MINORS = ("3.5", "4.0", "4.1", "4.2", "4.3")
OLDEST_JAVA = 17
# Part of the hash: a change of how jars are made makes them anew.
RECIPE = 1
_MANIFEST = "META-INF/MANIFEST.MF"
_EPOCH = (1980, 1, 1, 0, 0, 0)


class BuildError(Exception):
    """The jar cannot be built; the message says what to do."""


@dataclass(frozen=True)
class Spark:
    """A pyspark to compile against."""

    minor: str
    jars: Path

    @property
    def target(self) -> Path:
        return JARS / f"headwater-spark-{self.minor}.jar"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="build for every supported Spark")
    which.add_argument("--minor", choices=MINORS, help="build for one minor version, fetched where it is not there")
    which.add_argument(
        "--venv", choices=MINORS, help="only make the environment of a minor version, and print its path"
    )
    parser.add_argument("--force", action="store_true", help="build even when nothing changed")
    options = parser.parse_args(arguments)
    try:
        if options.venv:
            print(environment(options.venv))
            return 0
        sparks: Iterator[Spark]
        if options.all:
            sparks = (fetched(minor) for minor in MINORS)
        else:
            sparks = iter([fetched(options.minor) if options.minor else installed()])
        for spark in sparks:
            print(build(spark, force=options.force))
    except BuildError as error:
        print(f"connector: {error}", file=sys.stderr)
        return 1
    return 0


def installed() -> Spark:
    """The pyspark of the running interpreter."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise BuildError(
            f'pyspark is not installed for {sys.executable}; run "make venv", or: pip install "pyspark>=3.5"'
        )
    return at(Path(found.origin).parent)


def at(package: Path) -> Spark:
    """The Spark of a pyspark package."""
    version = re.search(r"""__version__[^=]*=\s*["']([^"']+)""", (package / "version.py").read_text("utf-8"))
    if version is None:
        raise BuildError(f"{package / 'version.py'} names no version; install pyspark again")
    minor = ".".join(version[1].split(".")[:2])
    if minor not in MINORS:
        raise BuildError(
            f"pyspark {version[1]} is installed; the connector is built for Spark {', '.join(MINORS)}. Install one of "
            f'them: pip install "pyspark=={MINORS[-1]}.*"'
        )
    jars = package / "jars"
    if not any(jars.glob("spark-catalyst_*.jar")):
        raise BuildError(
            f"{jars} has no Spark in it (pyspark-client and pyspark-connect have no jars); install the package pyspark"
        )
    return Spark(minor, jars)


def fetched(minor: str) -> Spark:
    """The Spark of a minor version: the installed one, or one in an environment of its own."""
    try:
        here = installed()
        if here.minor == minor:
            return here
    except BuildError:
        pass  # another pyspark, or none, is no hindrance here
    home = environment(minor)
    packages = sorted(home.glob("lib/python*/site-packages/pyspark")) + sorted(home.glob("Lib/site-packages/pyspark"))
    if not packages:
        raise BuildError(f"{home} has no pyspark; remove that folder and try again")
    return at(packages[0])


def environment(minor: str) -> Path:
    """A virtual environment with the newest pyspark of a minor version, made where it is not there."""
    home = ROOT / f".venv-spark-{minor}"
    stamp = home / ".pyspark"
    if not stamp.exists():
        print(f"connector: fetching pyspark {minor} into {home.name}", file=sys.stderr)
        python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([sys.executable, "-m", "venv", home], f"no environment could be made in {home.name}")
        _run([*install, f"pyspark=={minor}.*"], f"pyspark {minor} could not be installed into {home.name}")
        stamp.touch()
    return home


def build(spark: Spark, *, force: bool = False) -> str:
    """Make the jar where it is missing or older than its sources; a line that says what was done."""
    files = sources(spark.minor)
    hash_ = hash_of(files, spark.minor)
    shown = spark.target.relative_to(ROOT)
    if not force and hash_in(spark.target) == hash_:
        return f"{shown} is up to date"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headwater-connector-") as folder:
        classes = Path(folder)
        compile_(javac(), [path for name, path in files.items() if name.endswith(".java")], spark, classes)
        resources = {name: path for name, path in files.items() if not name.endswith(".java")}
        write_jar(spark, classes, resources, hash_)
    return f"{shown} built in {time.monotonic() - began:.1f} s"


def sources(minor: str) -> dict[str, Path]:
    """Java files and resources of one version, by their path in the jar."""
    found: dict[str, Path] = {}
    own = SOURCES / f"spark-{minor}"
    if not own.exists():
        own = SOURCES / f"spark-{minor.split('.')[0]}"  # minor versions of one major that do not differ
    for folder in (SOURCES / "main" / "java", SOURCES / "main" / "resources", own / "java"):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = path.relative_to(folder).as_posix()
                if name in found:
                    raise BuildError(f"{path.relative_to(ROOT)} and {found[name].relative_to(ROOT)} are the same class")
                found[name] = path
    if not any(name.endswith(".java") for name in found):
        raise BuildError(f"{SOURCES.relative_to(ROOT)}/main/java has no Java sources; is this a whole checkout?")
    return found


def hash_of(files: dict[str, Path], minor: str) -> str:
    digest = hashlib.sha256(f"{RECIPE} {minor} {_version()}".encode())
    for name in sorted(files):
        content = files[name].read_bytes()
        digest.update(f"\n{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:40]  # a line of a manifest has room for 72 bytes


def hash_in(jar: Path) -> str | None:
    """The hash of the sources that a jar was made from."""
    try:
        with zipfile.ZipFile(jar) as opened:
            found = re.search(r"^Headwater-Sources: ([0-9a-f]+)", opened.read(_MANIFEST).decode(), re.MULTILINE)
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    return None if found is None else found[1]


def javac() -> str:
    """The Java compiler: of JAVA_HOME, else of the path."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("javac")
    todo = f"Install a JDK {OLDEST_JAVA} or newer (not only a JRE) and put it on PATH or into JAVA_HOME"
    if found is None:
        raise BuildError(
            f"building from source needs javac, and there is none. {todo}; a released wheel needs only Java."
        )
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"javac (?:1\.)?(\d+)", said.stdout + said.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise BuildError(f"{found} is {(said.stdout + said.stderr).strip() or 'of no known version'}. {todo}.")
    return found


def compile_(compiler: str, files: Sequence[Path], spark: Spark, classes: Path) -> None:
    listed = classes.parent / f"{classes.name}.files"
    listed.write_text("\n".join(f'"{path.as_posix()}"' for path in files), "utf-8")
    command = [
        compiler,
        *("--release", str(OLDEST_JAVA)),
        *("-encoding", "UTF-8"),
        *("-cp", str(spark.jars / "*")),
        *("-d", str(classes)),
        "-parameters",
        "-proc:none",
        "-nowarn",
        f"@{listed}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        listed.unlink()
    if done.returncode:
        # Annotations in Spark's jars that are not there themselves make warnings, which hide the errors.
        lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("warning:")]
        raise BuildError(f"javac failed for Spark {spark.minor}:\n" + "\n".join(lines).replace(f"{ROOT}/", ""))


def write_jar(spark: Spark, classes: Path, resources: dict[str, Path], hash_: str) -> None:
    """The same sources give the same bytes; the jar appears whole or not at all."""
    manifest = (
        "Manifest-Version: 1.0\r\n"
        f"Implementation-Title: headwater-spark-{spark.minor}\r\n"
        f"Implementation-Version: {_version()}\r\n"
        f"Headwater-Spark: {spark.minor}\r\n"
        f"Headwater-Sources: {hash_}\r\n"
        "\r\n"
    )
    content = {path.relative_to(classes).as_posix(): path for path in classes.rglob("*") if path.is_file()} | resources
    spark.target.parent.mkdir(parents=True, exist_ok=True)
    draft = spark.target.with_name(f".{spark.target.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as jar:
            jar.writestr(zipfile.ZipInfo(_MANIFEST, _EPOCH), manifest, zipfile.ZIP_DEFLATED)
            for name in sorted(content):
                jar.writestr(zipfile.ZipInfo(name, _EPOCH), content[name].read_bytes(), zipfile.ZIP_DEFLATED)
        draft.replace(spark.target)
    finally:
        draft.unlink(missing_ok=True)


def _version() -> str:
    found = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    return found[1] if found else "0"


def _run(command: Sequence[str | Path], failure: str) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{failure}:\n{(done.stderr or done.stdout).strip()}")


if __name__ == "__main__":
    sys.exit(main())
