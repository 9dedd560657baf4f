"""Whether installed plugins can be imported: tried in processes of their own, so that none of them can do harm here."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlcore import registry
from rlcore.errors import PluginError
from rlcore.registry import Plugin

#: Seconds that all imports of one package may take.
TIMEOUT = 180.0

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rlcore import plugin_check; plugin_check.main()"
)


@dataclass(frozen=True)
class Finding:
    """What trying to load ``plugin`` showed.

    ``problem`` is one line, None where all is well; ``where`` the line of code that failed, if it was one; ``summary``
    the first line of the part's docstring.
    """

    plugin: Plugin
    problem: str | None = None
    where: str | None = None
    summary: str | None = None


def check(plugins: Sequence[Plugin], timeout: float = TIMEOUT) -> list[Finding]:
    """Tries to load each of ``plugins``, packages side by side; findings in the same order.

    What this program registered itself is there already, and is not tried.
    """
    packages: dict[str | None, list[Plugin]] = {}
    for plugin in plugins:
        packages.setdefault(plugin.distribution, []).append(plugin)
    findings = {plugin: Finding(plugin) for plugin in packages.pop(None, [])}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda package: _check_package(package, timeout), packages.values()):
            findings.update({finding.plugin: finding for finding in found})
    return [findings[plugin] for plugin in plugins]


def load_here(plugin: Plugin) -> Finding:
    """Loads ``plugin`` into this process."""
    try:
        part = registry.load_plugin(plugin)
    except PluginError as error:
        cause = error.__cause__
        if cause is None:
            return Finding(plugin, problem=_one_line(str(error)))
        problem = _one_line(f"{type(cause).__name__}: {cause}")
        return Finding(plugin, problem=problem, where=_where(cause))
    own = hasattr(part, "__qualname__") or inspect.ismodule(part) or "__doc__" in getattr(part, "__dict__", {})
    named = part if own else type(part)
    # A class's own docstring: one inherited from the base says nothing about it.
    lines = (named.__doc__ or "").strip().splitlines()
    return Finding(plugin, summary=lines[0] if lines else None)


def main() -> None:
    """In the process of its own: plugins come in on stdin as JSON, a line goes out on stdout after each."""
    # Plugins may print while they are imported.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for fields in json.load(sys.stdin):
        finding = load_here(Plugin(**fields))
        print(json.dumps([finding.problem, finding.where, finding.summary]), file=answers, flush=True)
    # Threads that a plugin started must not keep this process alive.
    os._exit(0)


def _check_package(plugins: Sequence[Plugin], timeout: float) -> list[Finding]:
    """Findings for one package; where an import takes its process down, the next process goes on after it."""
    findings: list[Finding] = []
    while len(findings) < len(plugins):
        rest = plugins[len(findings) :]
        answers, ending = _run(rest, timeout)
        findings += [Finding(plugin, *answer) for plugin, answer in zip(rest, answers, strict=False)]
        if len(answers) < len(rest):
            findings.append(Finding(rest[len(answers)], problem=ending))
    return findings


def _run(plugins: Sequence[Plugin], timeout: float) -> tuple[list[list[Any]], str]:
    """The answers of one process, and how it ended."""
    command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)]
    given = json.dumps([asdict(plugin) for plugin in plugins]).encode()
    try:
        done = subprocess.run(
            command, input=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        return _parse(error.stdout or b""), f"importing it took more than {timeout:g} s"
    return _parse(done.stdout), f"importing it ended the process ({_exit(done.returncode)})"


def _parse(output: bytes) -> list[list[Any]]:
    """The complete lines."""
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


def _exit(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _where(error: BaseException) -> str | None:
    """The file and line that raised, where it is not the import system itself."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    if not frames or Path(frames[-1].filename).parent.name in ("importlib", "metadata"):
        return None
    return f"{frames[-1].filename}:{frames[-1].lineno}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
