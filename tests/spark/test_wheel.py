"""The wheel, installed where nothing else of this project is: a first query runs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.fixtures.suites import tables

import headwater
from headwater.spark.connector import jar_for, minor_of, spark_version

ROOT = Path(__file__).parents[2]

QUERY = """
import sys
import headwater
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = headwater.configure(builder).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
table = spark.read.format("headwater").load(sys.argv[1])
print("ANSWER", headwater.__file__, table.count(), len(table.collect()), spark.conf.get("spark.jars"))
spark.stop()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs, and no other."""
    folder = tmp_path_factory.mktemp("wheel")
    jar_for(spark_version())  # `make connector` has made it
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("headwater-*.whl")
    target = folder / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True)
    return target


def test_wheel_has_the_jar_and_the_data_source(installed: Path) -> None:
    assert (installed / "headwater/spark/jars" / f"headwater-spark-{minor_of(spark_version())}.jar").is_file()
    assert (installed / "pyspark_headwater/__init__.py").is_file()
    assert (installed / "headwater/py.typed").is_file()


def test_first_query_of_the_installed_wheel(installed: Path, tmp_path: Path) -> None:
    table = next(table for table in tables("generated") if table.kind == "MOR")
    # As packages on the path, without the links to this checkout that an environment's start-up follows.
    path = os.pathsep.join([str(installed), sysconfig.get_paths()["purelib"]])
    python = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME")}
    environment |= {"PYTHONPATH": path, "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(
        [str(python), "-c", QUERY, str(table.path())],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    answers = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    assert answers, done.stdout + done.stderr
    place, counted, collected, jars = answers[0]
    expected = str(headwater.open(table.path()).scan().count())
    assert (counted, collected) == (expected, expected)
    assert Path(place).is_relative_to(installed)
    assert jars.startswith(str(installed))
