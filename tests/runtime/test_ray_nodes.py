"""A cluster of two nodes, one of which is taken away during training and comes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.processes import program
from support.runs import linear

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_torch")
pytest.importorskip("rlcore_gym")

pytestmark = pytest.mark.xdist_group("ray")

#: Says on stdout, for each optimizer: samples of rounds before and after, told in between, and the last row's counts.
PROGRAM = """
import json, os, time
from ray.cluster_utils import Cluster
from rlcore.trainer import Trainer

# Ray finds out within two seconds that a node is gone, instead of within a minute.
quick = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_timeout_ms": 1000,
         "health_check_failure_threshold": 3}
lean = {"include_dashboard": False, "include_log_monitor": False}
head = {"num_cpus": 1, "no_monitor": True, "_system_config": quick, **lean}
cluster = Cluster(initialize_head=True, head_node_args=head)
told = []

class Told:
    def worker_lost(self, index, cause):
        # That the node is gone, or that its workers cannot be reached: Ray may notice either first.
        told.append("lost" if cause and "\\n" not in cause else cause)

    def places_vacant(self, places, size):
        told.append(f"{size - len(places)} of {size}")

def train(optimizer):
    config = json.loads(os.environ["CONFIG"])
    config |= {"optimizer": {"name": optimizer}, "runtime": {"name": "ray", "address": cluster.address}}
    node = cluster.add_node(num_cpus=1, include_log_monitor=False)
    told.clear()
    with Trainer(config, hooks=[Told()]) as trainer:
        samples = lambda: trainer.step()["env_steps"] // 256
        trainer.step()
        # Where processes start slowly, places may have been vacant for a moment.
        while told and told[-1] != "2 of 2":
            trainer.step()
            time.sleep(0.05)
        told.clear()
        first = trainer.row["env_steps"] // 256
        before = [samples() - first for _ in range(3)]
        cluster.remove_node(node, allow_graceful=False)
        while "1 of 2" not in told:
            trainer.step()
        first = trainer.row["env_steps"] // 256
        alone = [samples() - first for _ in range(3)]
        node = cluster.add_node(num_cpus=1, include_log_monitor=False)
        while "2 of 2" not in told:
            trainer.step()
            time.sleep(0.05)
        first = trainer.row["env_steps"] // 256
        after = [samples() - first for _ in range(3)]
        missing = 2 * trainer.row["iteration"] - trainer.row["env_steps"] // 256
        print(before, alone, after, told, trainer.row["missing_samples"] == missing >= 3)
    cluster.remove_node(node)

try:
    train("multi_gpu")
    train("allreduce")
finally:
    cluster.shutdown()
"""


#: Says on stdout what a worker goes on from: a state that another has kept, and one that nobody has.
COPIES = """
import numpy as np
from ray.cluster_utils import Cluster
from rlcore.errors import ValueLost
from rlcore.runtime.base import Resources
from rlcore.runtime.ray import RayConfig, RayRuntime
from rlcore.snapshots import SnapshotKeeper

quick = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_timeout_ms": 1000,
         "health_check_failure_threshold": 3}
lean = {"include_dashboard": False, "include_log_monitor": False}
cluster = Cluster(initialize_head=True, head_node_args={
    "num_cpus": 1, "resources": {"stays": 1}, "no_monitor": True, "_system_config": quick, **lean})

class Maker:
    def snapshot(self, number):
        return None, {"weights": np.full(1_000_000, number)}

    def resume(self, state):
        return int(state["weights"][-1])

try:
    node = cluster.add_node(num_cpus=1, resources={"goes": 1}, include_log_monitor=False)
    runtime = RayRuntime(RayConfig(address=cluster.address))
    stays, goes = (Resources(custom={name: 0.1}) for name in ("stays", "goes"))
    maker, keeper, other = runtime.spawn(Maker, goes), runtime.spawn(SnapshotKeeper, stays), runtime.spawn(Maker, stays)
    states = [maker.submit("snapshot", number, returns=2)[1] for number in (1, 2)]
    runtime.get(keeper.submit("keep", "maker", states[0]))
    runtime.wait(states, 2)
    cluster.remove_node(node, allow_graceful=False)
    for state in states:
        try:
            print(runtime.get(other.submit("resume", state)))
        except ValueLost:
            print("lost")
    runtime.close()
finally:
    cluster.shutdown()
"""


def test_a_state_that_a_worker_keeps_outlives_the_node_that_it_was_made_on(tmp_path: Path) -> None:
    with program(COPIES, cwd=tmp_path, RAY_AUTH_MODE="disabled") as run:
        out, err = run.process.communicate(timeout=180.0)
        assert run.left() == []
    assert out.splitlines() == ["1", "lost"], err[-4000:]


def test_training_goes_on_without_a_node_and_uses_it_again(tmp_path: Path) -> None:
    config = {
        **linear({"evaluators": {"count": 2, "envs": 4, "fragment": 64, "room_timeout_s": 5.0}}),
        "algorithm": "ppo",
        "framework": "torch",
    }
    with program(PROGRAM, cwd=tmp_path, CONFIG=json.dumps(config), RAY_AUTH_MODE="disabled") as run:
        out, err = run.process.communicate(timeout=180.0)
        assert run.left() == []
    expected = "[2, 4, 6] [1, 2, 3] [2, 4, 6] ['lost', '1 of 2', '2 of 2'] True"
    assert out.splitlines() == [expected, expected], err[-4000:]
