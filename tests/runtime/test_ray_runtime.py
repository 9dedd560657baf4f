"""What only Ray has: processes, their losses and their resources, drivers within drivers."""

from __future__ import annotations

import json
import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support.processes import program
from support.runs import linear
from support.workers import Driver, Process, Unsendable

from rlcore.errors import ConfigError, RlcoreError, UserError, ValueLost, WorkerLost
from rlcore.runtime.base import Demand, Handle, Resources, Runtime
from rlcore.trainer import Trainer

pytestmark = pytest.mark.xdist_group("ray")


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int], seconds: float = 10.0) -> bool:
    """Whether all processes end in time."""
    end = time.monotonic() + seconds
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(alive(pid) for pid in pids)


@pytest.fixture(scope="module")
def shared(local_ray: str) -> Any:
    from rlcore.runtime.ray import RayRuntime

    runtime = RayRuntime()
    yield runtime, runtime.spawn(Process, Resources(cpus=1.0))
    runtime.close()


@pytest.fixture
def runtime(shared: tuple[Runtime, Handle]) -> Runtime:
    return shared[0]


@pytest.fixture
def worker(shared: tuple[Runtime, Handle]) -> Handle:
    return shared[1]


def test_a_worker_is_a_process_of_its_own_with_one_thread(runtime: Runtime, worker: Handle) -> None:
    assert runtime.get(worker.submit("pid")) != os.getpid()
    variables = runtime.get(worker.submit("variables"))
    assert (variables["OMP_NUM_THREADS"], variables["OPENBLAS_NUM_THREADS"]) == ("1", "1")


def test_an_exception_brings_the_trace_of_its_worker(runtime: Runtime, worker: Handle) -> None:
    with pytest.raises(KeyError) as caught:
        runtime.get(worker.submit("fail_because"))
    (note,) = caught.value.__notes__
    assert note.startswith(f"raised in worker Process, process {runtime.get(worker.submit('pid'))} on ")
    assert 'raise ZeroDivisionError("inner")' in note and "in fail_because" in note
    assert "/ray/" not in note and "Ray" not in note
    assert caught.value.__traceback__ is not None and "RayTaskError" not in repr(caught.value.__context__)


def test_an_exception_that_cannot_be_made_again_is_told(runtime: Runtime, worker: Handle) -> None:
    with pytest.raises(RlcoreError, match=r"^Unsendable: a and b \(the exception itself cannot be sent: ") as caught:
        runtime.get(worker.submit("fail_unsendably"))
    assert not isinstance(caught.value, Unsendable)


def test_a_worker_whose_process_dies_is_lost(runtime: Runtime, worker: Handle) -> None:
    victim = runtime.spawn(Process)
    pid = runtime.get(victim.submit("pid"))
    running = victim.submit("sleep", 60.0)
    waiting = worker.submit("several", 1, running)
    os.kill(pid, signal.SIGKILL)
    handed_over = [waiting, worker.submit("echo", victim.submit("pid"))]
    for ref in (running, victim.submit("pid"), *handed_over):
        with pytest.raises(WorkerLost) as caught:
            runtime.get(ref)
        # Whoever was to be given something is not lost.
        is_lost = ref not in handed_over
        assert (type(caught.value) is WorkerLost and caught.value.handle is victim) == is_lost
        assert isinstance(caught.value, ValueLost) != is_lost
        message = str(caught.value)
        assert message.startswith("worker Process was lost: process ") and "\n" not in message
        assert str(pid) in message
    assert runtime.wait([running]) == ([running], [])
    assert runtime.get(worker.submit("note", 1)) == 1


def test_wait_does_not_wait_longer_than_told(runtime: Runtime, worker: Handle) -> None:
    slow = worker.submit("sleep", 0.3)
    assert runtime.wait([slow], 1, timeout=0.01) == ([], [slow])
    assert runtime.wait([slow], 1) == ([slow], [])


def test_killing_ends_a_worker_that_hangs(runtime: Runtime) -> None:
    hanging = runtime.spawn(Process)
    pid = runtime.get(hanging.submit("pid"))
    hanging.submit("sleep", 600.0)
    runtime.kill(hanging)
    assert gone([pid])


def test_a_worker_drives_workers_of_its_own_that_end_with_it(runtime: Runtime) -> None:
    from functools import partial

    driver = runtime.spawn(partial(Driver, runtime.child()))
    pids = runtime.get(driver.submit("pids"))
    assert len({*pids, os.getpid()}) == 3
    with pytest.raises(KeyError, match="boom"):
        runtime.get(driver.submit("call", "fail"))
    with pytest.raises(WorkerLost) as caught:
        runtime.get(driver.submit("lose"))
    # The handle is the driver's own; here it is one of the same name.
    assert repr(caught.value.handle) == "Process"
    runtime.kill(driver)
    assert gone(pids)


def test_a_runtime_itself_stays_where_it_is(runtime: Runtime) -> None:
    with pytest.raises(TypeError, match="child"):
        pickle.dumps(runtime)


@pytest.mark.parametrize(
    ("each", "count", "message"),
    [
        (Resources(cpus=1.0), 100, "needs 100 CPUs, the cluster has 2: set evaluators.count to 2 at most"),
        (Resources(cpus=3.0), 1, "needs 3 CPUs, the cluster has 2: set evaluators.cpus"),
        (Resources(gpus=0.5), 3, "needs 1.5 GPUs, the cluster has 0: set evaluators.gpus"),
        (Resources(cpus=1.5), 2, "needs 3 CPUs, the cluster has 2: set evaluators.count to 1 at most"),
        (Resources(custom={"simulator": 2}), 2, "needs 4 simulator, the cluster has 0: set evaluators.custom"),
    ],
)
def test_B148_what_does_not_fit_is_refused_at_once(
    runtime: Runtime, each: Resources, count: int, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        runtime.require([Demand("evaluators.count", count, each)])
    assert str(caught.value) == message


def test_workers_that_have_to_wait_for_others_are_told_of(runtime: Runtime, worker: Handle) -> None:
    runtime.get(worker.submit("pid"))
    with pytest.warns(UserWarning, match=r"^needs 2 CPUs, of which the cluster has 1 to give away now: waiting for"):
        runtime.require([Demand("evaluators.count", 2, Resources(cpus=1.0))])


def test_B148_workers_fit_on_single_nodes() -> None:
    from rlcore.runtime.ray.runtime import _check

    demand = Demand("evaluators.count", 3, Resources(cpus=3.0))
    with pytest.raises(ConfigError) as caught:
        _check(demand, [{"CPU": 5.0}, {"CPU": 5.0}])
    assert str(caught.value) == (
        "needs 3 times 3 CPUs on one node, the cluster has room for 2: set evaluators.count to 2 at most"
    )
    _check(demand, [{"CPU": 6.0}, {"CPU": 3.0}, {}])


def test_B056_the_object_that_cannot_be_sent_is_named(runtime: Runtime) -> None:
    import threading

    lock = threading.Lock()

    def build() -> Any:
        return lock

    with pytest.raises(UserError) as caught:
        runtime.spawn(build)
    assert str(caught.value).startswith("cannot send worker ") and "variable 'lock' of " in str(caught.value)
    assert "_thread.lock" in str(caught.value)


def test_a_trainer_within_a_worker_has_evaluators_of_its_own(runtime: Runtime) -> None:
    """Three levels: this program, the trainer that it spawns, the evaluators that that one spawns."""
    pytest.importorskip("rlcore_sync")
    from functools import partial

    config = linear({"evaluators.count": 1, "filter": "mean_std"})
    with Trainer({**config, "runtime": "inline"}) as here:
        here.step()
        expected = here.weights_sha256()
    trainer = runtime.spawn(partial(Trainer, {**config, "runtime": "ray"}))
    runtime.get(trainer.submit("step"))
    assert runtime.get(trainer.submit("weights_sha256")) == expected
    runtime.get(trainer.submit("close"))
    runtime.kill(trainer)


def test_processes_within_a_worker_end_with_it(runtime: Runtime) -> None:
    worker = runtime.spawn(Parent)
    pid = runtime.get(worker.submit("child"))
    assert alive(pid)
    runtime.kill(worker)
    assert gone([pid])


class Parent:
    """Has a process of its own, as vectorised environments do."""

    def child(self) -> int:
        import subprocess

        return subprocess.Popen(["sleep", "600"]).pid


TWO_NODES = """
import json, os, ray
from ray.cluster_utils import Cluster
from rlcore.runtime.base import Demand, Resources
from rlcore.runtime.ray import RayConfig, RayRuntime
from rlcore.trainer import Trainer

class Where:
    def node(self):
        return ray.get_runtime_context().get_node_id()

    def visible(self):
        return os.environ.get("CUDA_VISIBLE_DEVICES")

lean = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **lean})
other = cluster.add_node(num_cpus=1, num_gpus=1, resources={"simulator": 2}, include_log_monitor=False)
runtime = RayRuntime(RayConfig(address=cluster.address))
there = runtime.capacity()
print(there.cpus, there.gpus, there.custom["simulator"])
halves = [runtime.spawn(Where, Resources(gpus=0.5)) for _ in range(2)]
simulator = runtime.spawn(Where, Resources(custom={"simulator": 2}))
print({runtime.get(one.submit("node")) for one in [*halves, simulator]} == {other.node_id})
print([runtime.get(one.submit("visible")) for one in halves])
for one in [*halves, simulator]:
    runtime.kill(one)
ones = [runtime.spawn(Where, Resources(cpus=1.0)) for _ in range(2)]
print(len(set(runtime.get([one.submit("node") for one in ones]))))
for one in ones:
    runtime.kill(one)
config = json.loads(os.environ["CONFIG"])
with Trainer({**config, "runtime": {"name": "ray", "address": cluster.address}}) as trainer:
    trainer.step()
    print(trainer.weights_sha256())
runtime.close()
cluster.shutdown()
"""


def test_workers_are_placed_where_their_resources_are(tmp_path: Path) -> None:
    pytest.importorskip("rlcore_sync")
    config = linear({"evaluators.count": 2})
    with Trainer({**config, "runtime": "inline"}) as here:
        here.step()
        expected = here.weights_sha256()
    with program(TWO_NODES, cwd=tmp_path, CONFIG=json.dumps(config), RAY_AUTH_MODE="disabled") as run:
        out, err = run.process.communicate(timeout=180.0)
        assert run.left() == []
    assert out.splitlines() == ["2.0 1.0 2.0", "True", "['0', '0']", "2", expected], err
