"""The table of names that our own packages provide, against their metadata."""

from __future__ import annotations

import tomllib
from pathlib import Path

from rlcore import known
from rlcore.registry import KINDS

ROOT = Path(__file__).parents[2]


def test_table_is_what_the_packages_of_this_repository_declare():
    groups = {kind.group: kind.name for kind in KINDS.values()}
    declared = {}
    for path in [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]:
        project = tomllib.loads(path.read_text())["project"]
        parts = {groups[group]: set(names) for group, names in project["entry-points"].items() if group in groups}
        if parts:
            declared[project["name"]] = parts
    table = {
        distribution: {kind: set(names) for kind, names in parts.items()} for distribution, parts in known.KNOWN.items()
    }
    assert table == declared


def test_no_name_is_provided_twice():
    for kind in KINDS:
        names = [name for parts in known.KNOWN.values() for name in parts.get(kind, ())]
        assert len(names) == len(set(names))


def test_frameworks_in_order_of_preference():
    assert known.frameworks()[:2] == ["torch", "tf"]
    assert known.framework_of("torch.ppo") == "torch"
    assert known.framework_of("ppo") == ""
