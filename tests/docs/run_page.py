"""Runs every snippet of one page, in order, in the current folder: ``python run_page.py PAGE``.

=========== ==========================================================================================
block       what is done with it
=========== ==========================================================================================
with title  written to a file of that name, for the blocks after it
python      run; all such blocks of a page share their names
console     each line that begins with ``$`` is run by bash and must succeed; other lines are its output
sh          each line is such a command
yaml toml json  parsed
text        left alone
=========== ==========================================================================================

Commands of make are looked up in the Makefile, and what pip is told to install among the distributions of this
repository; neither is run. A package that the page has written itself is built, and the commands after its installation
see it. A YAML file that no command of the page takes is an error: nobody would notice that it is
wrong.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

# This file runs as a script, also where Python is told to look for nothing beside it.
sys.path.insert(0, str(Path(__file__).parent))

import local_packages

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')


class Block(NamedTuple):
    """A fenced block: what stands after the fence, the text, and the line of the page where it begins."""

    language: str
    title: str | None
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    for match in FENCE.finditer(page):
        language, _, rest = match["info"].strip().partition(" ")
        title = TITLE.search(rest)
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        yield Block(language, title[1] if title else None, body, page.count("\n", 0, match.start()) + 1)


def run_block(block: Block, names: dict[str, Any], page: Path) -> None:
    match block.language:
        case "yaml":
            yaml.safe_load(block.text)
        case "toml":
            tomllib.loads(block.text)
        case "json":
            for line in block.text.splitlines():
                json.loads(line)
        case "console":
            for command in re.findall(r"^\$ (.+)$", block.text, re.MULTILINE):
                run_command(command)
        case "sh":
            for command in block.text.splitlines():
                run_command(command.partition("  #")[0])
        case "python" if block.title is None:
            # The blank lines make a trace name lines as the page counts them.
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        case "python" | "text":
            pass
        case language:
            raise AssertionError(f"no rule for a block of '{language}'; use text where nothing is to be run")
    if block.title is not None:
        path = Path(block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)


def run_command(command: str) -> None:
    words = command.split()
    if words[0] == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        unknown = [word for word in words[1:] if word not in targets]
        assert not unknown, f"the Makefile has no target {unknown}"
    elif words[:2] == ["pip", "install"]:
        local = [word for word in words[2:] if local_packages.is_local(word)]
        local_packages.install(local)
        words = [word for word in words if word not in local]
        files = [file for where in ("", "plugins/*/", "examples/*/") for file in ROOT.glob(f"{where}pyproject.toml")]
        ours = {tomllib.loads(file.read_text())["project"]["name"] for file in files}
        unknown = [word for word in words[2:] if word.partition("[")[0] not in ours and not word.startswith((".", "-"))]
        assert not unknown, f"no distribution of ours is called {unknown}"
    elif words[:2] == ["pip", "wheel"]:
        local_packages.build(Path(words[-1]), Path(words[words.index("--wheel-dir") + 1]))
    else:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, f"exit code {done.returncode}: {command}"


def main(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    sys.path.insert(0, "")
    files: set[str] = set()
    for block in blocks(page.read_text()):
        print(f"-- {page.name}:{block.line} {block.language} {block.title or ''}", flush=True)
        run_block(block, names, page)
        if block.language == "yaml" and block.title is not None:
            files.add(block.title)
        if block.language in ("console", "sh"):
            files -= set(block.text.split())
    assert not files, f"{page.name} shows {', '.join(sorted(files))}, and no command runs it"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
