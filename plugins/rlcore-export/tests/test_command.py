"""``rlcore export``, and what it refuses."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from gymnasium.spaces import Box, Discrete
from support.fresh_policies import policy_of
from support.trained_policies import Scaled, Watched, trained

from rlcore import cli
from rlcore.errors import UserError
from rlcore_export import onnx_model


def rlcore(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    done = rlcore("export", *arguments)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    return done.stderr.removeprefix("error: ").rstrip("\n")


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    return trained(tmp_path / "saved", env=Watched)


def test_it_prints_the_path_and_writes_over_nothing(saved: Path) -> None:
    done = rlcore("export", saved, "--format", "onnx")
    assert (done.exit_code, done.stdout) == (0, "policy.onnx\n")
    assert rlcore("export", saved, "--out", "deep/a.onnx").stdout == "deep/a.onnx\n"
    assert Path("deep/a.onnx").read_bytes() == Path("policy.onnx").read_bytes()
    assert refused(saved) == "policy.onnx exists already; name another file with --out"
    assert "'pickle' is not 'onnx'" in refused(saved, "--format", "pickle")
    assert "there is no checkpoint at" in refused("lost", "--out", "b.onnx")
    assert "has no policy 'other', only: default" in refused(saved, "--policy", "other", "--out", "b.onnx")
    assert sorted(path.name for path in Path().iterdir()) == ["deep", "policy.onnx", "saved"]


def test_a_policy_of_several_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    several = trained(
        tmp_path / "saved",
        env="rlcore.testing.environments:TwoAgentEnv",
        policies={"left": {}, "right": {}},
        policy_of={"left": "left", "right": "right"},
    )
    assert "name one of them: left, right" in refused(several, "--out", tmp_path / "a.onnx")
    assert rlcore("export", several, "--policy", "right", "--out", tmp_path / "a.onnx").exit_code == 0


def described(**actor: Any) -> Any:
    return dataclasses.replace(policy_of(Box(-1.0, 1.0, (3,)), Discrete(3)), actor=actor)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("search", "it searches the moves of a game for each action"),
        ("planning", "it plans each action with its model of the environment"),
        ("other", "this rlcore-export knows no actor of kind 'other'"),
    ],
)
def test_what_no_graph_computes(kind: str, why: str) -> None:
    with pytest.raises(UserError, match=f"policy 'default' cannot be exported: {why}"):
        onnx_model(described(kind=kind))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model.custom": "support.needy_actor:lost"}, "what its model (model.custom) computes is known to its"),
        ({"model.precision": "float64"}, "it computes in float64 (model.precision), the exported"),
    ],
)
def test_policies_that_only_their_framework_computes(changes: dict[str, Any], why: str) -> None:
    pytest.importorskip("torch")
    saved = policy_of(Box(-1.0, 1.0, (3,)), Discrete(3))
    ((key, value),) = changes.items()
    settings = saved.settings.model_copy(update={"model": {key.removeprefix("model."): value}})
    with pytest.raises(UserError, match=re.escape(f"policy 'default' cannot be exported: {why}")):
        onnx_model(dataclasses.replace(saved, actor=None, settings=settings), trust=True)


def test_a_graph_that_searches() -> None:
    pytest.importorskip("torch")
    saved = policy_of(Box(-1.0, 1.0, (3,)), Discrete(3))
    settings = saved.settings.model_copy(update={"graph": "torch.alphazero"})
    with pytest.raises(UserError, match="it searches the moves of a game for each action"):
        onnx_model(dataclasses.replace(saved, actor=None, settings=settings))


def test_a_graph_without_an_actor_that_nobody_knows(tmp_path: Path) -> None:
    saved = policy_of(Box(-1.0, 1.0, (3,)), Discrete(3))
    settings = saved.settings.model_copy(update={"graph": "numpy.pg"})
    with pytest.raises(UserError, match=r"its policy graph numpy\.pg offers no actor"):
        onnx_model(dataclasses.replace(saved, actor=None, settings=settings))


def test_a_checkpoint_that_names_code_is_not_trusted(tmp_path: Path) -> None:
    saved = policy_of(Box(-1.0, 1.0, (3,)), Discrete(3))
    settings = saved.settings.model_copy(update={"graph": "somewhere:Graph"})
    with pytest.raises(UserError, match="names code to import"):
        onnx_model(dataclasses.replace(saved, actor=None, settings=settings))


def test_the_summary_stands_in_the_overview() -> None:
    assert "export" in rlcore("--help").stdout
    assert Scaled.action_space.shape == (2,)
