"""The reference of write options in `docs/writing.md`, made from the code.

python -m headwater.spark.write.reference docs/writing.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from headwater.hudi.write.options import DOCUMENTED
from headwater.spark.reference import renewed
from headwater.spark.write.save_options import OPTIONS, PLAIN_NAMES, WITHOUT_EFFECT

BEGIN = "<!-- options: made by headwater.spark.write.reference -->"


def reference() -> str:
    """Two Markdown tables: what is to be done, and how."""
    lines = ["| option | takes | what it says | Hudi's names |", "|---|---|---|---|"]
    for option in OPTIONS:
        others = ", ".join(f"`{alias}`" for alias in option.aliases) or "–"
        lines.append(f"| `{option.name}` | {option.values} | {option.doc} | {others} |")
    lines += [
        "",
        "How a write goes about it, in `options={…}` of every operation by Hudi's name, in `.option(…)` by either:",
        "",
        "| option | takes | what it does |",
        "|---|---|---|",
    ]
    short = {name: ours for ours, name in PLAIN_NAMES.items()}
    for name, (values, doc) in DOCUMENTED.items():
        named = f"`{short[name]}`, `{name}`" if name in short else f"`{name}`"
        lines.append(f"| {named} | {values} | {doc} |")
    ignored = ", ".join(f"`{name}`" for name in sorted(WITHOUT_EFFECT))
    return "\n".join(
        [*lines, "", f"Accepted for the sake of scripts written for Hudi, and not needed here: {ignored}."]
    )


def within(page: str) -> str:
    """A page with the tables between their marks renewed."""
    return renewed(page, BEGIN, reference())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(within(path.read_text("utf-8")), "utf-8")
