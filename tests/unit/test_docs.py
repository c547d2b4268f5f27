"""Pages say what is so: their links lead somewhere, their promises are cited, their first example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text("utf-8")
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_paths_in_the_readme_exist() -> None:
    for path in re.findall(
        r"`((?:src|tests|benchmarks|docs)/[\w./-]+|benchmarks)`", (REPOSITORY / "README.md").read_text()
    ):
        assert (REPOSITORY / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_make_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE))
    asked = re.findall(r"(?:^    |`)make ([a-z]+(?: [a-z]+)*)", page.read_text("utf-8"), re.MULTILINE)
    assert {target for call in asked for target in call.split()} <= targets


def test_architecture_has_a_row_for_every_module_at_the_top() -> None:
    modules = {path.stem for path in (REPOSITORY / "src" / "headwater").glob("[a-z]*") if path.suffix in ("", ".py")}
    rows = re.findall(r"^\| (`.*?`) \|", (REPOSITORY / "docs" / "architecture.md").read_text("utf-8"), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == modules


def test_every_promise_is_cited_by_a_test() -> None:
    promised = re.findall(r"^\*\*(R\d+)\.", (REPOSITORY / "docs" / "reader-spec.md").read_text("utf-8"), re.MULTILINE)
    assert promised == [f"R{number}" for number in range(1, len(promised) + 1)]
    cited: set[str] = set()
    for test in (REPOSITORY / "tests").rglob("test_*.py"):
        for line in re.findall(r"reader-spec ((?:R\d+[, ]*)+)", test.read_text("utf-8")):
            cited |= set(re.findall(r"R\d+", line))
    assert set(promised) == cited


def test_first_read_and_first_write_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    read, write = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert len([line for line in read.splitlines() if line.strip()]) <= 5
    exec(read, {})
    assert "shape:" in capsys.readouterr().out
    exec(write, {})
    assert "0 rows inserted, 1 updated, 0 deleted" in capsys.readouterr().out
