"""The hybrids ppo_es and a3c_es: how short they are, that PPO and A3C know nothing of them, and that they run."""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import FunctionType

import pytest

from rlcore import registry
from rlcore.trainer import Trainer
from rlcore_es.hybrids import A3CES, PPOES
from rlcore_es.nested import Member, NestedES

pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_batched")


def lines_of(*parts: type | FunctionType) -> int:
    """Lines of code: without blank ones, comments and docstrings."""
    count = 0
    for one in parts:
        source = textwrap.dedent(inspect.getsource(one))
        texts = enumerate(map(str.strip, source.splitlines()), start=1)
        lines = {number for number, text in texts if text and not text.startswith("#")}
        for node in ast.walk(ast.parse(source)):
            # A constant that stands by itself is a docstring.
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        count += len(lines)
    return count


@pytest.mark.parametrize("recipe", [PPOES, A3CES])
def test_a_hybrid_is_at_most_50_lines(recipe: type) -> None:
    """Its recipe, how the weights of a member are perturbed and learn, and how they are averaged."""
    assert lines_of(recipe, Member, NestedES._average) <= 50


def test_so_is_each_with_its_half_of_the_whole_optimizer() -> None:
    """Counters, timers and states included, which every optimizer has."""
    assert lines_of(PPOES, A3CES, Member, NestedES) <= 2 * 75


@pytest.mark.parametrize(("name", "around"), [("ppo_es", "ppo"), ("a3c_es", "a3c")])
def test_it_goes_around_what_the_other_recipe_names(name: str, around: str) -> None:
    hybrid, other = registry.load("algorithm", name), registry.load("algorithm", around)
    assert (hybrid.policy_graph, hybrid.optimizer) == (other.policy_graph, "nested_es")
    assert hybrid.optimizers["nested_es"]["inner"]["name"] == other.optimizer


@pytest.mark.parametrize("name", ["ppo_es", "a3c_es"])
def test_it_runs(name: str) -> None:
    config = {
        "algorithm": name,
        "framework": "torch",
        "env": "batched:cartpole",
        "seed": 1,
        "optimizer": {"members": 3},
        "evaluators": {"envs": 2, "fragment": 8},
        "model": {"hidden": [4]},
    }
    with Trainer(config) as trainer:
        before, row = trainer.weights_sha256(), trainer.step()
        assert row["updates"] == 1 and row["env_steps"] > 0 and trainer.weights_sha256() != before
