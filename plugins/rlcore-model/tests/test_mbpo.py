"""The optimizer and the recipes in runs: how much they learn, that runs go on exactly, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore.batch import SampleBatch
from rlcore.errors import ConfigError, OptimizerError, SpaceError, UnknownPluginError, UserError
from rlcore.learning.dynamics import TARGETS
from rlcore.trainer import Trainer

pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_gym")

#: Members, layers and minibatches that take no time.
DYNAMICS = {
    "minibatch_size": 8,
    "learnt_per_sampled": 4.0,
    "policy": {"members": 2},
    "model": {"hidden": [8]},
}
OPTIMIZER = {
    "learning_starts": 24,
    "minibatch_size": 8,
    "learnt_per_sampled": 8.0,
    "rollouts_per_sampled": 2.0,
    "rollout_length": 2.0,
    "real_share": 0.25,
    "rounds": 3,
}
PLANNER = {"horizon": 3, "population": 6, "elites": 2, "iterations": 2}


def mbpo(graph: str = "torch.sac", dynamics: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "algorithm": "mbpo",
        "env": "Pendulum-v1",
        "policies": {"default": {"graph": graph, "policy": {"random_steps": 12}, "model": {"hidden": [8]}}},
        "optimizer": {"name": "mbpo", **OPTIMIZER, "dynamics": {**DYNAMICS, **(dynamics or {})}},
        "evaluators": {"envs": 2, "fragment": 4},
        "seed": 3,
        "stop": {"env_steps": 144},
        **changes,
    }


def mpc(env: str = "Pendulum-v1", **changes: Any) -> dict[str, Any]:
    return {
        "algorithm": "mpc",
        "env": env,
        "policy": {"members": 2, "random_steps": 16, "planner": PLANNER},
        "model": {"hidden": [8]},
        "optimizer": {"learning_starts": 8, "minibatch_size": 8, "learnt_per_sampled": 4.0, "rounds": 2},
        "evaluators": {"envs": 2, "fragment": 4},
        "seed": 3,
        "stop": {"env_steps": 96},
        **changes,
    }


PARALLEL = {"in_parallel": True}


def weights(trainer: Trainer) -> dict[str, np.ndarray]:
    return {
        f"{policy_id}.{name}": array
        for policy_id, own in trainer.optimizers[0].get_weights().items()
        for name, array in own.items()
    }


def trained(config: dict[str, Any], out: Path | None = None) -> dict[str, np.ndarray]:
    with Trainer(config, out=out) as trainer:
        trainer.train()
        return weights(trainer)


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_policies_and_dynamics_learn_as_much_as_is_stated() -> None:
    with Trainer(mbpo()) as trainer:
        rows = [trainer.step() for _ in range(3)]
        optimizer: Any = trainer.optimizers[0]
        # An iteration has 24 steps; 8 rows for each step beyond 24, in minibatches of 8, are an update each.
        assert [row["updates"] for row in rows] == [0, 24, 48]
        assert [row["learnt_rows"] for row in rows] == [0, 192, 384]
        assert optimizer.dynamics_pace.learnt == {"default": 72 * 4}
        assert optimizer.training.get_state()["learner"]["graphs"]["default"]["optimizer"]["members"]["step"] == 36
        assert "dynamics_loss" in rows[0] and "q_loss" in rows[1]
        assert rows[1]["imagine_s"] >= 0.0 and rows[1]["dynamics_s"] >= 0.0


def test_the_statistics_of_dynamics_are_not_those_of_the_policy() -> None:
    with Trainer(mbpo()) as trainer:
        first, second = trainer.step(), trainer.step()
    # Nothing but dynamics has learnt in the first iteration; a likelihood has its own name, and all terms together one.
    assert not {"loss", "grad_norm", "q_loss"} & first.keys()
    of_dynamics = {name for name in first if name.startswith("dynamics_")} - {"dynamics_s"}
    terms = {"loss", "end_loss", "bounds_loss", "prediction_error", "total_loss", "grad_norm"}
    assert of_dynamics == {f"dynamics_{name}" for name in terms}
    assert {"q_loss", "grad_norm", *of_dynamics} <= second.keys()


@pytest.fixture
def first_rows_are_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first minibatch of every piece of work of the dynamics has a reward that is NaN."""
    from rlcore_torch import Dynamics

    whole = Dynamics.loss_columns

    def broken(self: Dynamics, batch: SampleBatch) -> dict[str, np.ndarray]:
        columns = whole(self, batch)
        columns[TARGETS][0] = np.nan
        return columns

    monkeypatch.setattr(Dynamics, "loss_columns", broken)


@pytest.mark.usefixtures("first_rows_are_nan")
def test_updates_that_dynamics_skip_are_counted() -> None:
    with Trainer(mbpo()) as here, Trainer(mbpo(dynamics=PARALLEL)) as parallel:
        # One of each of three rounds; in parallel the last round's is still to come, and is in the state.
        assert here.step()["skipped_updates"] == 3
        assert parallel.step()["skipped_updates"] == 2
        saved = parallel.optimizers[0].get_state()["training"]
        training: Any = here.optimizers[0].training
        training.set_state(saved)
        assert [report.skipped for report in training.ready()] == [1]


def test_it_imagines_as_much_as_is_stated_and_forgets_the_oldest() -> None:
    with Trainer(mbpo()) as trainer:
        optimizer: Any = trainer.optimizers[0]
        trainer.step()
        # From 24 environment steps on: of each 8 two rollouts a step, of two steps each.
        assert len(optimizer.memories.imagined["default"]) == 8 * 2 * 2
        trainer.step()
        assert len(optimizer.memories.imagined["default"]) == 4 * 8 * 2 * 2
    config = mbpo()
    config["optimizer"]["imagined_capacity"] = 50
    with Trainer(config) as trainer:
        trainer.train()
        optimizer = trainer.optimizers[0]
        assert len(optimizer.memories.imagined["default"]) == 50


@pytest.mark.parametrize("graph", ["torch.td3", "torch.ddpg", "torch.sac"])
def test_any_off_policy_graph_can_be_named(graph: str) -> None:
    assert all(np.isfinite(array).all() for array in trained(mbpo(graph)).values())


def test_discrete_actions() -> None:
    config = mbpo("torch.dqn", env="CartPole-v1")
    config["policies"]["default"]["policy"] = {}
    assert all(np.isfinite(array).all() for array in trained(config).values())
    assert all(np.isfinite(array).all() for array in trained(mpc("CartPole-v1")).values())


@pytest.mark.parametrize("dynamics", [{}, PARALLEL])
@pytest.mark.parametrize("count", [0, 2])
def test_the_runtimes_agree(dynamics: dict[str, Any], count: int) -> None:
    evaluators = {"count": count, "envs": 2, "fragment": 4}
    found = [trained(mbpo(dynamics=dynamics, evaluators=evaluators, runtime=name)) for name in ("inline", "sim")]
    assert same(*found)


@pytest.mark.xdist_group("ray")
def test_ray_does_the_same() -> None:
    found = [trained(mbpo(dynamics=PARALLEL, runtime=name)) for name in ("inline", "ray")]
    assert same(*found)


def test_learning_in_parallel_is_one_round_behind() -> None:
    here, parallel = trained(mbpo()), trained(mbpo(dynamics=PARALLEL))
    assert not same(here, parallel)


@pytest.mark.parametrize("config", [mbpo(), mbpo(dynamics=PARALLEL), mpc()], ids=["mbpo", "parallel", "mpc"])
def test_six_iterations_are_three_saved_and_three_more(config: dict[str, Any], tmp_path: Path) -> None:
    with Trainer(config) as trainer:
        for _ in range(6):
            trainer.step()
        whole = weights(trainer)
    with Trainer(config) as trainer:
        for _ in range(3):
            trainer.step()
        trainer.save(tmp_path / "saved")
    with Trainer.restore(tmp_path / "saved") as trainer:
        for _ in range(3):
            trainer.step()
        assert same(weights(trainer), whole)


@pytest.mark.parametrize(("before", "after", "pending"), [({}, PARALLEL, 0), (PARALLEL, {}, 1)], ids=["to", "from"])
def test_a_run_goes_on_with_dynamics_that_learn_elsewhere(
    before: dict[str, Any], after: dict[str, Any], pending: int
) -> None:
    with Trainer(mbpo(dynamics=before)) as first, Trainer(mbpo(dynamics=after)) as second:
        first.step()
        saved = first.optimizers[0].get_state()
        second.optimizers[0].set_state(saved)
        again: dict[str, Any] = second.optimizers[0].get_state()["training"]
        assert len(again["reports"]) == len(saved["training"]["reports"]) == pending
        learners = [training["learner"]["graphs"]["default"]["weights"] for training in (saved["training"], again)]
        assert same(*learners)
        training: Any = second.optimizers[0].training
        for report, delivered in zip(saved["training"]["reports"], training.ready(), strict=True):
            assert same(report["weights"]["default"], delivered.weights["default"])
        second.step()


@pytest.mark.parametrize(("config", "more"), [(mbpo(), 0), (mpc(), 4)], ids=["mbpo", "mpc"])
def test_without_its_memory_a_run_waits_until_there_is_enough_again(
    config: dict[str, Any], more: int, tmp_path: Path
) -> None:
    with Trainer({**config, "checkpoints": {"replay": False}}) as trainer:
        before = [trainer.step()["updates"] for _ in range(3)][-1]
        trainer.save(tmp_path / "saved")
    with pytest.warns(UserWarning, match="without the replay memory"):
        trainer = Trainer.restore(tmp_path / "saved")
    with trainer:
        assert trainer.step()["updates"] == before + more


@pytest.mark.parametrize(
    ("dynamics", "error", "said"),
    [
        ({"graph": "nonsense"}, UnknownPluginError, "nonsense"),
        ({"graph": "torch.sac", "policy": {}}, OptimizerError, "torch.sac is no model of dynamics"),
        ({"policy": {"memberz": 3}}, ConfigError, "optimizer.dynamics.policy.memberz.*members"),
        ({"policy": {"members": 0}}, ConfigError, "optimizer.dynamics.policy.members"),
        ({"policy": {"model": {}}}, ConfigError, "stands at 'optimizer.dynamics.model'"),
        ({"model": {"lstm": 4}}, ConfigError, "model.lstm"),
        ({"minibatch_size": 0}, ConfigError, "optimizer.dynamics.minibatch_size"),
    ],
)
def test_dynamics_that_cannot_be_had_are_refused(dynamics: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Trainer(mbpo(dynamics=dynamics))


def test_policies_that_do_not_learn_from_single_transitions_are_refused() -> None:
    config = mbpo()
    config["policies"]["default"]["policy"] = {"n_step": 3}
    with pytest.raises(OptimizerError, match=r"set policy.n_step to 1"):
        Trainer(config)
    config = mbpo("torch.impala")
    config["policies"]["default"]["policy"] = {}
    with pytest.raises(OptimizerError, match="learns from pieces"):
        Trainer(config)


def test_environments_that_cannot_be_planned_in_are_refused() -> None:
    with pytest.raises(SpaceError, match="Box of floats"):
        Trainer(mpc("FrozenLake-v1"))
    with pytest.raises((ConfigError, UserError), match="elites: 9 of 6"):
        Trainer(mpc(policy={"planner": {**PLANNER, "elites": 9}}))
