"""Checks a wheel before it leaves: a jar for every supported Spark, each made from the sources that are here."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from build import MINORS, hash_of, sources


def main(folder: str) -> int:
    wheels = sorted(Path(folder).glob("headwater-*.whl"))
    if len(wheels) != 1:
        print(f"{folder} has {len(wheels)} wheels where one was made", file=sys.stderr)
        return 1
    with zipfile.ZipFile(wheels[0]) as wheel:
        for minor in MINORS:
            name = f"headwater/spark/jars/headwater-spark-{minor}.jar"
            if name not in wheel.namelist():
                print(f"{wheels[0]} lacks {name}; run: make wheel", file=sys.stderr)
                return 1
            with zipfile.ZipFile(io.BytesIO(wheel.read(name))) as jar:
                found = re.search(r"Headwater-Sources: (\S+)", jar.read("META-INF/MANIFEST.MF").decode())
            if found is None or found[1] != hash_of(sources(minor), minor):
                print(f"{name} in {wheels[0]} is not made from these sources; run: make wheel", file=sys.stderr)
                return 1
    print(f"{wheels[0]}: {wheels[0].stat().st_size / 1e6:.1f} MB, jars for Spark {', '.join(MINORS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
