"""Runs on Ray are the runs that they are inline, and what travels is no more than has to."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.runs import linear, two_agents, without_times
from support.workers import Sampling

import rlcore
from rlcore.errors import ConfigError, EnvError
from rlcore.hooks import load_hooks
from rlcore.parts import build_parts
from rlcore.resolve import resolve
from rlcore.runtime.base import Runtime
from rlcore.testing.environments import CountEnv
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray")]


def trained(config: Mapping[str, Any], iterations: int) -> tuple[str, dict[str, Any]]:
    """The digest of the weights and the last row after so many iterations."""
    with Trainer(config) as trainer:
        for _ in range(iterations):
            row = trainer.step()
        return trainer.weights_sha256(), without_times(row)


def on(runtime: str, count: int, **settings: Any) -> dict[str, Any]:
    return {
        "env": "CartPole-v1",
        "seed": 3,
        **settings,
        "runtime": runtime,
        "evaluators": {"count": count, "envs": 4, "fragment": 32, **settings.get("evaluators", {})},
    }


@pytest.mark.parametrize("optimizer", ["multi_gpu", "allreduce"])
@pytest.mark.parametrize("graph", ["numpy.pg", "torch.pg", "torch.a2c", "torch.ppo"])
def test_B150_one_evaluator_gives_the_same_weights_inline_and_on_ray(graph: str, optimizer: str) -> None:
    framework, algorithm = graph.split(".")
    pytest.importorskip(f"rlcore_{framework}" if framework != "numpy" else "numpy")
    settings = {"algorithm": algorithm, "framework": framework, "optimizer": {"name": optimizer}, "filter": "mean_std"}
    expected = trained(on("inline", 1, **settings), 1)
    assert trained(on("ray", 1, **settings), 1) == expected


def test_B150_without_evaluators_the_driver_samples_on_ray_as_it_does_inline() -> None:
    for optimizer in ("multi_gpu", "allreduce"):
        settings = {"algorithm": "pg", "framework": "numpy", "optimizer": {"name": optimizer}}
        assert trained(on("ray", 0, **settings), 2) == trained(on("inline", 0, **settings), 2)


def test_two_evaluators_learn_on_ray_as_they_do_inline() -> None:
    pytest.importorskip("rlcore_torch")
    config = {"algorithm": "ppo", "framework": "torch", "env": "CartPole-v1", "seed": 1, "evaluators": {"count": 2}}
    sha256, row = trained({**config, "runtime": "ray"}, 25)
    assert row["episode_return_mean"] > 80
    assert (sha256, row) == trained({**config, "runtime": "inline"}, 25)


def test_allreduce_in_epochs_updates_on_ray_as_it_does_inline() -> None:
    optimizer = {"name": "allreduce", "epochs": 2, "minibatch_size": 40}
    settings = {"algorithm": "pg", "framework": "numpy", "optimizer": optimizer, "filter": "mean_std"}
    assert trained(on("ray", 2, **settings), 3) == trained(on("inline", 2, **settings), 3)


def test_policies_with_optimizers_of_their_own_share_the_evaluators_on_ray() -> None:
    config = two_agents({"evaluators.count": 2})
    assert trained({**config, "runtime": "ray"}, 2) == trained({**config, "runtime": "inline"}, 2)


def test_evaluators_are_on_ray_where_nobody_says_otherwise() -> None:
    assert resolve(linear({"evaluators.count": 1})).config.runtime.name == "ray"


def test_a_run_goes_on_exactly_on_another_runtime(tmp_path: Any) -> None:
    config = linear({"evaluators.count": 1, "runtime": "ray", "filter": "mean_std", "stop.iteration": 4})
    expected = trained(config, 4)
    with Trainer(config) as trainer:
        trainer.step()
        trainer.step()
        trainer.save(tmp_path / "saved")
    with Trainer.restore(tmp_path / "saved", overrides={"runtime": "inline"}) as trainer:
        trainer.step()
        trainer.step()
        assert (trainer.weights_sha256(), without_times(trainer.row)) == expected


def test_filters_on_ray_are_those_of_the_pooled_observations() -> None:
    with Trainer(linear({"evaluators.count": 2, "runtime": "ray", "filter": "mean_std"})) as trainer:
        for _ in range(3):
            trainer.step()
        evaluators = trainer.evaluators
        master = evaluators.local.filters["default"][""].get_statistics()
        states = evaluators._runtime.get([handle.submit("get_state") for handle in evaluators.handles])
    assert int(master["count"]) >= 2 * 3 * 75
    for state in states:
        own = state["filters"]["default"][""]["statistics"]
        assert int(own["count"]) == int(master["count"])
        np.testing.assert_allclose(own["mean"], master["mean"], rtol=1e-12)


# -- what is sent


def test_B148_more_than_there_is_is_refused_with_numbers(tmp_path: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Trainer(linear({"evaluators.count": 100, "runtime": "ray"}), out=tmp_path / "run")
    assert str(caught.value) == "needs 100 CPUs, the cluster has 2: set evaluators.count to 2 at most"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"count": 5, "cpus": 0.5}, "needs 2.5 CPUs, the cluster has 2: set evaluators.count to 4 at most"),
        ({"count": 2, "gpus": 0.5}, "needs 1 GPUs, the cluster has 0: set evaluators.gpus"),
        ({"count": 1, "custom": {"simulator": 1}}, "needs 1 simulator, the cluster has 0: set evaluators.custom"),
    ],
)
def test_what_each_evaluator_asks_for_is_held_against_what_there_is(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Trainer(linear({"evaluators": asked, "runtime": "ray"}))
    assert str(caught.value) == message


def test_evaluators_may_share_a_cpu() -> None:
    with Trainer(linear({"evaluators": {"count": 4, "cpus": 0.5}, "runtime": "ray"})) as trainer:
        assert trainer.step()["env_steps"] == 4 * 75


class Registered(CountEnv):
    """Is registered by this program and by no package."""


def test_B057_what_the_program_has_registered_is_known_to_workers() -> None:
    gymnasium.register("OnlyHere-v0", entry_point=Registered, max_episode_steps=5)
    rlcore.register("env", "only-here")(Registered)
    try:
        for env in ("OnlyHere-v0", "only-here"):
            config = linear({"env": env, "evaluators": {"count": 2, "fragment": 7}, "runtime": "ray"})
            with Trainer(config) as trainer:
                assert trainer.step()["env_steps"] == 2 * 3 * 7
    finally:
        del gymnasium.registry["OnlyHere-v0"]
        rlcore.registry._registered.pop(("env", "only-here"))


def test_B056_lambdas_and_local_classes_reach_workers() -> None:
    length = 3

    class Local(CountEnv):
        def __init__(self) -> None:
            super().__init__(length)

    for env in (lambda: Local(), Local):
        config = linear({"env": env, "evaluators": {"count": 1, "envs": 1, "fragment": 9}, "runtime": "ray"})
        with Trainer(config) as trainer:
            assert trainer.step()["episode_length_mean"] == 3.0


def test_B056_what_cannot_be_sent_is_named() -> None:
    stream = sys.stdout.buffer if hasattr(sys.stdout, "buffer") else open(0, "rb")  # noqa: SIM115  never read

    def make() -> CountEnv:
        assert stream
        return CountEnv(3)

    with pytest.raises(rlcore.errors.UserError, match=r"cannot send worker EvaluatorMaker\.sampler\(0\)") as caught:
        Trainer(linear({"env": make, "evaluators.count": 1, "runtime": "ray"}))
    assert "variable 'stream' of" in str(caught.value) and "make" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


class Fragile(CountEnv):
    def step(self, action: Any) -> Any:
        raise ValueError("boom")


def test_B046_an_exception_in_an_environment_reaches_the_user_as_itself() -> None:
    config = linear({"env": Fragile, "evaluators.count": 2, "runtime": "ray"})
    with Trainer(config) as trainer, pytest.raises(EnvError, match="ValueError: boom") as caught:
        trainer.step()
    note, tries = caught.value.__notes__
    assert note.startswith("raised in worker EvaluatorMaker.sampler(") and "process " in note
    assert tries.endswith("was replaced after this, 2 times, and failed again")
    assert 'raise ValueError("boom")' in note
    assert repr(caught.value.__cause__) == "ValueError('boom')"


def test_a_worker_that_samples_imports_no_framework_and_stays_small(ray_runtime: Runtime) -> None:
    pytest.importorskip("rlcore_torch")
    parts = build_parts(resolve(on("inline", 1, algorithm="ppo", framework="torch")), load_hooks([]), {})
    parts.close()
    worker = ray_runtime.spawn(functools.partial(Sampling, functools.partial(parts.maker.sampler, 0)))
    for _ in range(3):
        assert ray_runtime.get(worker.submit("sample")) == 128
    modules, memory = ray_runtime.get([worker.submit("modules"), worker.submit("own_memory")])
    assert not modules & {"torch", "tensorflow", "keras", "jax", "matplotlib", "pytest"}
    assert memory < 100 << 20
