"""Everything that the documentation shows works: each snippet of each page is run, and each page is reachable."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# The page of the example is run where the example is installed, in tests/packaging.
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("plugins/*/README.md"),
    *ROOT.glob("benchmarks/README.md"),
]


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / "run_page.py"), str(page)],
        cwd=tmp_path,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_readme_begins_with_the_two_commands() -> None:
    first = (ROOT / "README.md").read_text().split("```")[1]
    assert re.findall(r"make \w+", first) == ["make demo", "make test"]


def test_every_page_is_in_the_navigation() -> None:
    config = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r"[\w/-]+\.md", yaml.safe_dump(yaml.safe_load(config)["nav"])))
    assert listed == {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
