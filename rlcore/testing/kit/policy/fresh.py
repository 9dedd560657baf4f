"""An actor in a fresh interpreter: what it does there, and which packages it brings with it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pickle
import subprocess
import sys
from typing import Any, NamedTuple

from rlcore.policy_graph import Actor
from rlcore.requirements import canonical, is_of_extra, required_name, requirements
from rlcore.testing.kit.trees import copied

TIMEOUT = 180.0

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); before = set(sys.modules); "
    "from rlcore.testing.kit.policy import fresh; fresh.main(before)"
)


class Elsewhere(NamedTuple):
    """What ``act`` gave, by name, and the top-level modules that were imported."""

    output: dict[str, Any]
    modules: set[str]


class CannotAct(Exception):
    """It failed there; the message is the end of what was printed."""


def act_elsewhere(actor: Actor, arguments: dict[str, Any]) -> Elsewhere:
    """Pickles ``actor`` to a new process and has it act there. Raises ``CannotAct`` where that fails."""
    try:
        payload = pickle.dumps((actor, arguments))
    except Exception as error:
        raise CannotAct(f"it cannot be pickled: {type(error).__name__}: {error}") from error
    command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)]
    done = subprocess.run(command, input=payload, capture_output=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise CannotAct(said[-1] if said else f"exit code {done.returncode}")
    output, modules = pickle.loads(done.stdout)
    return Elsewhere(output, set(modules))


def main(before: set[str]) -> None:
    """In the new process: actor and arguments come in on stdin, what they give goes out on stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    actor, arguments = pickle.load(sys.stdin.buffer)
    output = actor.act(**arguments)
    tree = {"actions": output.actions, "state": list(output.state), "extras": dict(output.extras)}
    modules = {name.partition(".")[0] for name in set(sys.modules) - before}
    pickle.dump((copied(tree), sorted(modules)), answers)
    answers.flush()


def foreign_packages(actor: Actor, modules: set[str]) -> list[str]:
    """The installed packages among ``modules`` that neither the kernel needs nor are the actor's own."""
    owners = importlib.metadata.packages_distributions()
    own = type(actor).__module__.partition(".")[0]
    allowed = _required("rlcore") | {canonical(name) for name in owners.get(own, [])}
    found = {canonical(name) for module in modules for name in owners.get(module, [])}
    return sorted(found - allowed)


def _required(distribution: str) -> set[str]:
    """The distribution and all that it requires, directly or not, extras left out."""
    found: set[str] = set()
    waiting = [canonical(distribution)]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        waiting += [canonical(required_name(line)) for line in requirements(name) if not is_of_extra(line)]
    return found
