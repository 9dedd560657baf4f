"""Each distribution installed from its wheel, alone with what it declares, and used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Alone = Callable[..., Any]


def test_imports_and_loads_its_entry_points(project: Any, alone: Alone) -> None:
    names = sorted(project.entry_points())
    assert names, "every distribution provides something"
    code = f"""
import importlib.metadata, {project.module}
for group, name in {names!r}:
    (found,) = importlib.metadata.entry_points(group=group, name=name)
    print(getattr(found.load(), "__name__", name))
"""
    assert len(alone(project.name).python(code).split()) == len(names)


def test_it_is_the_wheel_that_is_imported(project: Any, alone: Alone) -> None:
    environment = alone(project.name)
    file = environment.python(f"import {project.module}; print({project.module}.__file__)").strip()
    assert Path(file).is_relative_to(environment.folder)


def test_every_module_imports(project: Any, alone: Alone) -> None:
    """Whatever is packed works with what is declared; only the kit for test authors asks for its extra."""
    code = f"""
import importlib, pkgutil, {project.module}
for found in pkgutil.walk_packages({project.module}.__path__, "{project.module}."):
    if not found.name.endswith("__main__") and found.name != "rlcore.testing.suites":
        importlib.import_module(found.name)
"""
    alone(project.name).python(code)


def test_an_undeclared_package_is_not_there(alone: Alone) -> None:
    names = ["torch", "matplotlib", "rlcore_gym"]
    code = f"import importlib.util as find; print([name for name in {names} if find.find_spec(name)])"
    assert alone("rlcore").python(code).strip() == "[]"
    assert alone("rlcore-sync").python(code).strip() == "['rlcore_gym']"


LEARN = """
import numpy as np, rlcore
from rlcore.registry import load
from rlcore.testing.environments import Count

evaluator = rlcore.PolicyEvaluator(env=Count, graph=load("policy_graph", {name!r}), collect=rlcore.Fragment(6), rng=0)
before = evaluator.get_weights()["default"]
batch = evaluator.sample()
evaluator.apply_gradients({{"default": evaluator.gradients(batch)["default"].gradients}})
after = evaluator.get_weights()["default"]
print(len(batch), any((before[key] != after[key]).any() for key in before))
"""


@pytest.mark.parametrize(
    ("distribution", "name"), [("rlcore", "numpy.pg"), ("rlcore-torch", "torch.ppo"), ("rlcore-tf", "tf.pg")]
)
def test_policy_graphs_sample_and_learn(distribution: str, name: str, alone: Alone) -> None:
    assert alone(distribution).python(LEARN.format(name=name)).split() == ["6", "True"]


def test_kernel_alone_has_its_command(alone: Alone) -> None:
    kernel = alone("rlcore")
    assert "train" in kernel.rlcore("--help")
    assert kernel.rlcore("plugins", "policy_graph").split("\t")[:3] == ["policy_graph", "numpy.pg", "rlcore"]


def test_gym_alone_steps_environments(alone: Alone) -> None:
    code = """
from rlcore.envs import build_env
env = build_env("CartPole-v1", 3, {})
env.reset(1)
print(env.poll(None)["default"].obs.shape)
env.close()
"""
    assert alone("rlcore-gym").python(code).strip() == "(3, 4)"


def test_sync_alone_trains_without_any_framework(alone: Alone, tmp_path: Path) -> None:
    options = ["--framework", "numpy", "--env", "CartPole-v1", "--stop", "iteration=1", "--out", "run"]
    result = json.loads(alone("rlcore-sync").rlcore("train", "pg", *options, cwd=tmp_path))
    assert result["status"] == "stopped"
    assert (tmp_path / "run/checkpoints/1/manifest.json").is_file()


def test_two_packages_are_enough_for_ppo_on_cartpole(alone: Alone, tmp_path: Path) -> None:
    environment = alone("rlcore-sync", "rlcore-torch")
    options = ["--env", "CartPole-v1", "--stop", "iteration=2", "--out", "run"]
    result = json.loads(environment.rlcore("train", "ppo", *options, cwd=tmp_path))
    assert (result["iteration"], result["status"]) == (2, "stopped")
    evaluated = json.loads(environment.rlcore("evaluate", "run", "--episodes", "2", cwd=tmp_path))
    assert evaluated["episodes"] == 2


def test_a_policy_is_exported_and_acts_where_only_a_runtime_is(alone: Alone, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    environment = alone("rlcore-sync", "rlcore-torch", "rlcore-export")
    options = ["--env", "CartPole-v1", "--stop", "iteration=1", "--out", "run"]
    environment.rlcore("train", "ppo", *options, cwd=tmp_path)
    assert environment.rlcore("export", "run", "--format", "onnx", cwd=tmp_path) == "policy.onnx\n"
    code = """
import sys
sys.modules["rlcore"] = sys.modules["torch"] = None
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
print(session.run(["actions"], {"obs": numpy.zeros((2, 4), numpy.float32)})[0].tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "policy.onnx")], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() in ("[0, 0]", "[1, 1]"), done.stderr


def test_three_packages_are_enough_for_apex_on_cartpole(alone: Alone, tmp_path: Path) -> None:
    environment = alone("rlcore-apex", "rlcore-torch")
    options = ["--env", "CartPole-v1", "--stop", "updates=50", "--out", "run"]
    result = json.loads(environment.rlcore("train", "apex_dqn", *options, cwd=tmp_path))
    assert result["updates"] >= 50 and result["status"] == "stopped"
    evaluated = json.loads(environment.rlcore("evaluate", "run", "--episodes", "2", cwd=tmp_path))
    assert evaluated["episodes"] == 2


def test_what_is_missing_is_named_with_the_command_that_installs_it(alone: Alone, tmp_path: Path) -> None:
    kernel = alone("rlcore")
    command = [str(kernel.folder / "bin/rlcore"), "train", "ppo", "--env", "CartPole-v1", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "pip install rlcore-sync" in done.stderr
    assert list(tmp_path.iterdir()) == []
