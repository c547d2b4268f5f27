"""Write `tests/data/written/functions.json`: what Spark gives for the functions that filters know, on odd values.

.venv-peers/bin/python tests/interop/functions.py BUNDLE.jar
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from hudi_job import brief, plain, session  # it sets the zone before Spark starts

TARGET = Path(__file__).parents[1] / "data" / "written" / "functions.json"
DAYS = [-2_000_000, -719_529, -719_528, -719_163, -719_162, -141_428, -141_427, -1, 0, 1, 58, 59, 60, 365]
DAYS += [11_016, 11_017, 19_000, 2_932_896, 2_932_897, 2_932_898, 4_000_000, 20_000_000]
MICROS = [-62_135_596_800_000_001, -62_135_596_800_000_000, -62_167_219_200_000_001, -62_167_219_200_000_000]
MICROS += [-1_500_000, -1_000_001, -1_000_000, -999_999, -1, 0, 1, 999_999, 1_000_000, 1_700_000_000_123_456]
MICROS += [1_709_164_800_000_000, 1_735_689_599_999_999, 253_402_300_799_999_999, 253_402_300_800_000_000]
MICROS += [9_000_000_000_000_000_000, -9_000_000_000_000_000_000]
SECONDS = [-62_135_596_801, -62_135_596_800, -1, 0, 1, 1_700_000_000, 1_735_689_599, 253_402_300_799, 253_402_300_800]
SECONDS += [9_223_372_036_854, 9_223_372_036_855, -9_223_372_036_855, 2**62, -(2**63), 2**63 - 1]
TEXTS = [
    "",
    "a",
    "Abc",
    "ABC dEf",
    "  pad  ",
    "\ttab\t",
    "ÄPFEL",
    "straße",
    "İstanbul",
    "ΣΑΣ",
    "ΑΣ Σ",
    "ŉ",
    "ǅ",
    "ß",
    "ı",
]
TEXTS += ["日本語テキスト", "😀😀x", "a😀b", "2020-01-15", "2020-1-5", "2020", "2020-02-30", "2020-01-15 10:11:12.5"]
TEXTS += ["2020-01-15T23:59:59Z", "1969-12-31 23:59:59", "9999-12-31", "x2020-01-01", " 2020-01-15 ", "\u2003em\u2003"]
PATTERNS = ["yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "yyyy", "dd/MM/yyyy", "yyyy-MM-dd\\'T\\'HH"]
OF_TIMES = [f"{name}(x)" for name in ("year", "month", "day", "dayofmonth", "hour", "unix_timestamp", "to_date")]
OF_TIMES += [f"date_format(x, '{pattern}')" for pattern in PATTERNS]
OF_TIMES += ["date_add(x, 1)", "date_add(x, -400)", "date_sub(x, 30)"]
OF_TEXTS = [f"{name}(x)" for name in ("lower", "upper", "length", "trim", "ltrim", "rtrim", "year", "month", "day")]
OF_TEXTS += ["hour(x)", "to_date(x)", "date_format(x, 'yyyy-MM-dd HH:mm:ss')", "date_add(x, 3)"]
OF_TEXTS += [
    f"substring(x, {p}{n})" for p in (0, 1, 2, 5, -1, -2, -3, -10) for n in ("", *(f", {n}" for n in range(-1, 4)))
]
OF_SECONDS = ["from_unixtime(x)", "from_unixtime(x, 'yyyy-MM-dd')", "from_unixtime(x, 'HH:mm')"]
KINDS: dict[str, tuple[list[Any], str, list[str]]] = {
    "date": (DAYS, "date_from_unix_date(CAST(x AS int))", OF_TIMES),
    "timestamp": (MICROS, "timestamp_micros(x)", OF_TIMES),
    "long": (SECONDS, "x", OF_SECONDS),
    "string": (TEXTS, "x", OF_TEXTS),
}


def main() -> None:
    spark = session({"release": "1.2.0", "jar": os.path.abspath(sys.argv[1]), "scratch": "/tmp/hudi-tables/scratch"})
    found: dict[str, Any] = {}
    for kind, (values, made, calls) in KINDS.items():
        rows = list(enumerate([*values, None]))
        given = spark.createDataFrame(rows, f"i int, x {'string' if kind == 'string' else 'bigint'}")
        given.selectExpr("i", f"{made} AS x").createOrReplaceTempView("given")
        out: dict[str, Any] = {}
        for call in calls:
            # Python has no days beyond the year 9999: they come as numbers.
            is_date = call.startswith(("to_date", "date_add", "date_sub"))
            query = f"SELECT {f'unix_date({call})' if is_date else call} FROM given ORDER BY i"
            try:
                out[call] = [plain(row[0]) for row in spark.sql(query).collect()]
            except Exception as error:
                out[call] = brief(error)
        found[kind] = {"in": [*values, None], "out": out}
    TARGET.write_text(json.dumps(found, ensure_ascii=False, indent=0), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
