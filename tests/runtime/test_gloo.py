"""gloo and NCCL between evaluators on Ray: the same weights as by the runtime's tree, whatever becomes of a rank."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.runs import Uneven, linear, two_agents

from rlcore.collective import Collective, Seat
from rlcore.errors import ConfigError, GroupBroken, OptimizerError, UserError
from rlcore.hooks import hookimpl
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.runtime.base import Runtime
from rlcore.trainer import Trainer

rlcore_torch = pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_sync")
collectives = pytest.importorskip("rlcore_torch.collectives")
torch = pytest.importorskip("torch")

GLOO = torch.distributed.is_available() and torch.distributed.is_gloo_available()
needs_gloo = pytest.mark.skipif(not GLOO, reason="this build of torch has no gloo")
on_ray = [pytest.mark.xdist_group("ray"), pytest.mark.usefixtures("local_ray"), needs_gloo]


class Rank:
    """A worker that is one rank."""

    def __init__(self) -> None:
        self.collective: Collective = collectives.Gloo()

    def open(self, host: str) -> str:
        return self.collective.open(host)

    def join(self, seat: Seat) -> None:
        self.collective.join(seat)

    def add(self, count: int) -> list[float]:
        return self.collective.add(np.arange(count, dtype=np.float32)).tolist()

    def fails(self, count: int) -> str:
        try:
            self.collective.add(np.zeros(count, np.float32))
        except GroupBroken as error:
            return str(error)
        return ""

    def listens_at(self) -> set[str]:
        """The addresses, in hexadecimal, at which this process listens since it was made: gloo's and torch's."""
        links = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        own = {link[8:-1] for link in links if link.startswith("socket:[")}
        tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
        lines = [line.split() for table in tables for line in table.read_text().splitlines()]
        return {line[1].split(":")[0] for line in lines if line[3] == "0A" and line[9] in own}

    def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def ranks(ray_runtime: Runtime) -> Iterator[list[Any]]:
    workers = [ray_runtime.spawn(Rank) for _ in range(3)]
    before = ray_runtime.get([worker.submit("listens_at") for worker in workers])
    assert set(ray_runtime.get([ray_runtime.address(worker) for worker in workers])) == {"127.0.0.1"}
    address = ray_runtime.get(workers[0].submit("open", "127.0.0.1"))
    seats = [Seat(address, "127.0.0.1", rank, 3, 20.0) for rank in range(3)]
    ray_runtime.get([worker.submit("join", seat) for worker, seat in zip(workers, seats, strict=True)])
    after = ray_runtime.get([worker.submit("listens_at") for worker in workers])
    assert all(own - old <= {"0100007F"} for own, old in zip(after, before, strict=True))
    yield workers


@pytest.mark.xdist_group("ray")
@needs_gloo
def test_ranks_that_lose_one_do_not_wait_for_it(ray_runtime: Runtime, ranks: list[Any]) -> None:
    assert ray_runtime.get([rank.submit("add", 5) for rank in ranks]) == [[0.0, 3.0, 6.0, 9.0, 12.0]] * 3
    waiting = [rank.submit("fails", 10) for rank in ranks[:2]]
    ranks[2].submit("stop")
    assert all(ray_runtime.get(waiting))
    assert ray_runtime.get(ranks[0].submit("fails", 1)) == "there is no group"


@needs_gloo
def test_a_group_of_one_rank() -> None:
    rank = collectives.Gloo()
    rank.join(Seat(rank.open("127.0.0.1"), "127.0.0.1", 0, 1, 20.0))
    assert rank.add(np.float32([1.0, 2.0])).tolist() == [1.0, 2.0]
    rank.leave()
    rank.leave()


@needs_gloo
def test_ranks_that_do_not_come_are_not_waited_for_for_ever() -> None:
    rank = collectives.Gloo()
    address = rank.open("127.0.0.1")
    with pytest.raises(GroupBroken):
        rank.join(Seat(address, "127.0.0.1", 0, 2, 0.2))
    with pytest.raises(GroupBroken):
        collectives.Gloo().join(Seat(address, "127.0.0.1", 1, 2, 0.2))
    rank.leave()


def settings(collective: str | None, count: int, runtime: Any = "ray", **others: Any) -> dict[str, Any]:
    """Two policies, of which some evaluators lack one now and then, in several updates a step."""
    config = two_agents({"evaluators": {"count": count, "envs": 1, "fragment": 4, **others}, "runtime": runtime})
    own = {"name": "allreduce", "epochs": 2, "minibatch_size": 3, "collective": collective}
    policies = {"left": {"optimizer": own}, "right": {"optimizer": {**own, "seed": 7}}}
    return {**config, "env": Uneven, "policies": policies, "algorithm": "pg", "framework": "torch", "seed": 1}


def check_replicas(trainer: Trainer) -> None:
    """All evaluators have the driver's weights, bit by bit."""
    for state in trainer.evaluators.get_state()["evaluators"].values():
        for policy_id, own in trainer.weights().items():
            for name, array in own.items():
                np.testing.assert_array_equal(state["graphs"][policy_id]["weights"][name], array)


class TestOnRay:
    pytestmark = on_ray

    def test_B143_weights_are_those_of_the_tree_though_replicas_lack_a_policy(self) -> None:
        found = []
        for collective in ("gloo", None):
            with Trainer(settings(collective, 2)) as trainer:
                rows = [trainer.step() for _ in range(3)]
                assert rows[-1]["updates"] > 0 and rows[-1]["dropped_rows"] == 0
                check_replicas(trainer)
                found.append(trainer.weights())
        for policy_id, own in found[0].items():
            for name, array in own.items():
                np.testing.assert_allclose(array, found[1][policy_id][name], rtol=0.0, atol=1e-6)

    @pytest.mark.parametrize(
        ("sent", "collective"), [(signal.SIGKILL, "gloo"), (signal.SIGSTOP, "gloo"), (signal.SIGKILL, None)]
    )
    def test_a_rank_that_is_lost_in_an_update_is_replaced_and_the_update_made_anew(
        self, sent: signal.Signals, collective: str | None, tmp_path: Path
    ) -> None:
        losses: list[tuple[int, str]] = []

        class Losses:
            @hookimpl
            def worker_lost(self, index: int, cause: str) -> None:
                losses.append((index, cause))

        config = settings(collective, 2, timeout_s=5.0)
        for own in config["policies"].values():
            own |= {"graph": "support.doomed_graph:Doomed", "policy": {"order": str(tmp_path / "order")}}
        with Trainer(config, hooks=[Losses()]) as trainer:
            trainer.step()
            (tmp_path / "order").write_text(str(int(sent)))
            row = trainer.step()
            check_replicas(trainer)
            assert len(losses) == 1, losses
            # Of the sample that was lost some rows may have been learnt from, and all of the one that came for it.
            assert row["env_steps"] == 2 * 2 * 4 and row["dropped_rows"] > 0
            trainer.step()
            check_replicas(trainer)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runtime": "inline"}, "'gloo' needs evaluators that are processes of their own: set runtime to ray"),
        ({"runtime": "sim"}, "'gloo' needs evaluators that are processes of their own: set runtime to ray"),
        ({"optimizer.collective": "mpi"}, "policy graph PPO offers no 'mpi'; it offers: gloo, nccl"),
        ({"framework": "numpy", "algorithm": "pg"}, "offers no 'gloo'; it offers: none"),
    ],
)
def test_what_cannot_be_had_is_said_in_one_line(changes: dict[str, Any], said: str) -> None:
    own = {"name": "allreduce", "collective": "gloo"}
    config = linear({"algorithm": "ppo", "framework": "torch", "optimizer": own, "evaluators.count": 2, **changes})
    with pytest.raises(OptimizerError, match=said) as caught:
        Trainer(config)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_nccl_without_a_gpu_is_refused() -> None:
    with pytest.raises(UserError, match=r"^optimizer\.collective: "):
        collectives.Nccl().open("127.0.0.1")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NCCL needs a GPU, and there is none here")
def test_nccl_of_one_rank() -> None:
    rank = collectives.Nccl()
    rank.join(Seat(rank.open("127.0.0.1"), "127.0.0.1", 0, 1, 20.0))
    assert rank.add(np.float32([1.0, 2.0])).tolist() == [1.0, 2.0]
    rank.leave()


def test_an_evaluator_without_a_group_says_so() -> None:
    policies = {"left": rlcore_torch.PolicyGradient}
    evaluator = PolicyEvaluator(env=Uneven, policies=policies, policy_of=lambda agent: "left")
    told, mean = evaluator.gradients_together(("left",), 0, {})
    assert (told.cause, mean) == ("there is no group", {})  # type: ignore[union-attr]


@pytest.mark.xdist_group("ray")
@pytest.mark.usefixtures("local_ray")
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_gpus_that_the_cluster_has_not_are_refused_with_numbers() -> None:
    config = settings("nccl", 2, gpus=0.5)
    with pytest.raises(ConfigError, match=r"^needs 1 GPUs, the cluster has 0: set evaluators\.gpus$"):
        Trainer(config)


def test_evaluators_compute_on_the_devices_that_they_are_given() -> None:
    policies = {"left": rlcore_torch.PolicyGradient}
    for devices in (("cpu",), ("cpu", "cpu")):
        one = PolicyEvaluator(env=Uneven, policies=policies, policy_of=lambda agent: "left", devices=devices)
        assert len(one.graph("left")._devices) == len(devices)  # type: ignore[attr-defined]
