"""The reference of options in `docs/spark.md`, made from `spark.options`.

python -m headwater.spark.reference docs/spark.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from headwater.spark.options import OPTIONS, WITHOUT_EFFECT

BEGIN = "<!-- options: made by headwater.spark.reference -->"
END = "<!-- end of options -->"


def reference() -> str:
    """A Markdown table of every option."""
    lines = ["| option | takes | default | what it does |", "|---|---|---|---|"]
    for option in OPTIONS:
        others = [f"`{alias}`" for alias in option.aliases]
        doc = option.doc + (f" Also accepted: {', '.join(others)}." if others else "")
        if not option.in_session:
            doc += " Not for a whole session."
        if option.in_table:
            doc += f" Table property: `{option.property_name}`."
        lines.append(f"| `{option.name}` | {option.values} | {_shown(option.default)} | {doc} |")
    ignored = ", ".join(f"`{name}`" for name in sorted(WITHOUT_EFFECT))
    lines += ["", f"Accepted for the sake of scripts written for Hudi, and not needed here: {ignored}."]
    return "\n".join(lines)


def within(page: str) -> str:
    """A page with the table between its marks renewed."""
    return renewed(page, BEGIN, reference())


def renewed(page: str, begin: str, content: str) -> str:
    """A page with other content between a mark and the end of options.

    >>> renewed(f"a\\n<!-- b -->\\nold\\n{END}\\nc", "<!-- b -->", "new").split()
    ['a', '<!--', 'b', '-->', 'new', '<!--', 'end', 'of', 'options', '-->', 'c']
    """
    before, rest = page.split(begin, 1)
    return f"{before}{begin}\n\n{content}\n\n{END}{rest.split(END, 1)[1]}"


def _shown(default: object) -> str:
    if default is None:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(within(path.read_text("utf-8")), "utf-8")
