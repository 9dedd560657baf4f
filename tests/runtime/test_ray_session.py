"""Whose Ray it is: one that runs already, or one of our own, which is private, small and gone afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.processes import program

from rlcore.errors import ConfigError
from rlcore.results import RunFolder

pytest.importorskip("rlcore_sync")
pytest.importorskip("rlcore_gym")

pytestmark = pytest.mark.xdist_group("ray")

RLCORE = "import sys; from rlcore.cli import main; main(sys.argv[1:])"
TRAIN = (
    *("train", "pg", "--env", "CartPole-v1", "--framework", "numpy", "--seed", "1", "--evaluators", "2"),
    *("--set", "evaluators.fragment=40", "--set", "evaluators.envs=2", "--out", "run"),
)
#: Ray itself takes most of it, more where the machine is busy.
PATIENCE = 120.0

#: These two try to reach a head that is gone for up to a minute, to tell it of the loss, and then end.
LINGERING = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")


def join(address: str) -> None:
    from rlcore.runtime.ray.session import _join

    _join(address, "runtime.address")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", r"no Ray cluster answers at 127\.0\.0\.1:1: .*[Cc]onnection refused"),
        ("no-such-host.invalid:6379", r"no Ray cluster answers at no-such-host\.invalid:6379: "),
        ("127.0.0.1", r"'127\.0\.0\.1' is no host:port of the head node of a Ray cluster"),
        ("127.0.0.1:port", r"is no host:port"),
        ("ray://127.0.0.1:10001", r"is no host:port"),
        ("127.0.0.1:70000", r"no Ray cluster answers at "),
    ],
)
def test_a_wrong_address_is_one_line(address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^runtime\.address: .*{message}") as caught:
        join(address)
    assert "\n" not in str(caught.value)


def test_an_address_where_something_else_answers_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConfigError, match=rf"^runtime\.address: what answers at {address} is no head node"):
            join(address)
        thread.join()


def test_a_wrong_address_on_the_command_line(tmp_path: Path) -> None:
    with program(RLCORE, *TRAIN, "--address", "127.0.0.1:1", cwd=tmp_path) as run:
        out, err = run.process.communicate(timeout=PATIENCE)
    assert (run.process.returncode, out) == (2, "")
    assert err.startswith("error: runtime.address: no Ray cluster answers at 127.0.0.1:1: ") and err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_B148_more_evaluators_than_there_is_room_for_on_the_command_line(tmp_path: Path) -> None:
    with program(RLCORE, *TRAIN, "--evaluators", "100", "--set", "runtime.cpus=2", cwd=tmp_path) as run:
        out, err = run.process.communicate(timeout=PATIENCE)
        assert run.left() == []
    assert (run.process.returncode, out) == (2, "")
    assert err == "error: needs 100 CPUs, the cluster has 2: set evaluators.count to 2 at most\n"
    assert not (tmp_path / "run").exists()


BROKEN = """
from rlcore.testing.environments import CountEnv

class Fragile(CountEnv):
    def __init__(self):
        super().__init__(5)

    def step(self, action):
        return self.helper() if self.t == 3 else super().step(action)

    def helper(self):
        raise ValueError("boom")
"""


@pytest.mark.parametrize("debug", [False, True])
def test_B046_an_exception_of_a_worker_on_the_command_line(debug: bool, tmp_path: Path) -> None:
    (tmp_path / "fragile.py").write_text(BROKEN)
    arguments = (*TRAIN, "--env", "fragile:Fragile", "--runtime", "ray", *(["--debug"] if debug else []))
    with program(RLCORE, *arguments, cwd=tmp_path) as run:
        out, err = run.process.communicate(timeout=PATIENCE)
        assert run.left() == []
    assert (run.process.returncode, out) == (2, "")
    said = err[err.index("\nerror: ") + 1 :]
    assert said.startswith("error: fragile:Fragile, slot 0, step 4: step() raised ValueError: boom\n")
    assert "in helper\n    raise ValueError(" in said
    worker = r"raised in worker EvaluatorMaker\.sampler\((\d)\), process \d+ on 127\.0\.0\.1"
    if debug:
        # The whole way through the worker, with what it came from.
        trace = re.search(rf"^{worker}:\n(.*?)^evaluator (\d) was", err, re.MULTILINE | re.DOTALL)
        assert trace is not None and trace[1] == trace[3]
        assert "in sample_counted" in trace[2] and "The above exception was the direct cause" in trace[2]
    else:
        notes = re.search(rf"^{worker}\nevaluator (\d) was replaced after this, 2 times, and", said, re.MULTILINE)
        assert notes is not None and notes[1] == notes[2] and "Traceback" not in err


def test_a_process_is_connected_to_one_cluster(local_ray: str) -> None:
    from rlcore.runtime.ray import RayConfig, RayRuntime

    for same in (local_ray, local_ray.replace("127.0.0.1", "localhost")):
        RayRuntime(RayConfig(address=same, cpus=None)).close()
    with pytest.raises(ConfigError, match=rf"this process is connected to the Ray cluster at {local_ray}, and cannot"):
        RayRuntime(RayConfig(address="127.0.0.1:1", cpus=None))


def test_the_ray_of_the_process_outlives_all_but_its_last_runtime(local_ray: str) -> None:
    import ray

    from rlcore.runtime.ray import RayRuntime

    first, second = RayRuntime(), RayRuntime()
    first.close()
    first.close()
    assert second.capacity().cpus == 2
    second.close()
    assert ray.is_initialized()


def test_a_cluster_that_runs_already_is_used_and_left_running(local_ray: str, tmp_path: Path) -> None:
    arguments = (*TRAIN, "--stop", "iteration=2", "--address", local_ray)
    with program(RLCORE, *arguments, cwd=tmp_path) as run:
        out, err = run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode == 0, err
    assert json.loads(out)["env_steps"] == 320
    assert RunFolder.open(tmp_path / "run").config_yaml.count(f"runtime: {{name: ray, address: '{local_ray}'}}") == 1
    assert run.left() == []
    import ray

    assert ray.cluster_resources()["CPU"] == 2
    with program(RLCORE, "resume", "run", "--stop", "iteration=3", "--runtime", "inline", cwd=tmp_path) as run:
        out, err = run.process.communicate(timeout=PATIENCE)
    assert json.loads(out)["env_steps"] == 480, err
    with program(RLCORE, "resume", "run", "--stop", "iteration=4", "--address", "127.0.0.1:1", cwd=tmp_path) as run:
        _, err = run.process.communicate(timeout=PATIENCE)
    assert err.startswith("error: runtime.address: no Ray cluster answers at 127.0.0.1:1: ")


def test_a_cluster_with_a_token_says_so(local_ray: str, tmp_path: Path) -> None:
    arguments = (*TRAIN, "--stop", "iteration=2", "--address", local_ray)
    with program(RLCORE, *arguments, cwd=tmp_path, RAY_AUTH_MODE="disabled") as run:
        out, err = run.process.communicate(timeout=PATIENCE)
    assert (run.process.returncode, out) == (2, "")
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert f"runtime.address: the Ray cluster at {local_ray} asks for a token: set RAY_AUTH_MODE=token" in line


def test_ctrl_c_leaves_a_checkpoint_and_no_process(tmp_path: Path) -> None:
    with program(RLCORE, *TRAIN, cwd=tmp_path) as run:
        run.wait_until(tmp_path / "run" / "progress.jsonl", '"iteration": 3')
        # Nothing that was started for the run can be reached from elsewhere, nor without its token.
        assert run.listens_on() <= {"0100007F", "0000000000000000FFFF00000100007F"}
        # The driver, Ray's head, its node and the two agents of that, two workers.
        assert len(run.running()) == 7
        # As a terminal does: to all of the foreground's processes.
        os.killpg(run.process.pid, signal.SIGINT)
        out, err = run.process.communicate(timeout=PATIENCE)
        assert run.left() == []
    assert run.process.returncode == 130
    result = json.loads(out)
    assert result["status"] == "interrupted"
    assert RunFolder.open(tmp_path / "run").checkpoints().iterations()[-1] == result["iteration"]
    assert "Traceback" not in err and "ray" not in err.lower().replace("rlcore", "").replace("runtime", "")


def test_a_run_whose_driver_is_killed_goes_on_from_its_last_checkpoint_and_leaves_no_process(tmp_path: Path) -> None:
    arguments = (*TRAIN, "--runtime", "ray", "--checkpoint-every", "2")
    with program(RLCORE, *arguments, cwd=tmp_path) as run:
        run.wait_until(tmp_path / "run" / "progress.jsonl", '"iteration": 5')
        run.process.kill()
        run.process.communicate(timeout=PATIENCE)
        assert run.left(but=LINGERING) == []
    folder = RunFolder.open(tmp_path / "run")
    saved, reached = folder.checkpoints().iterations()[-1], folder.rows()[-1]["iteration"]
    assert 4 <= saved <= reached and saved % 2 == 0 and folder.result() is None
    with program(RLCORE, "resume", "run", "--stop", f"iteration={reached + 3}", cwd=tmp_path) as run:
        out, err = run.process.communicate(timeout=PATIENCE)
        assert run.process.returncode == 0, err
        assert run.left() == []
    result = json.loads(out)
    assert [row["iteration"] for row in folder.rows()] == list(range(1, reached + 4))
    # No worker was lost on the way, and so it is the run that it would have been.
    inline = (*TRAIN[:-1], "inline", "--runtime", "inline", "--stop", f"iteration={reached + 3}")
    with program(RLCORE, *inline, cwd=tmp_path) as run:
        out, err = run.process.communicate(timeout=PATIENCE)
    assert result["weights_sha256"] == json.loads(out)["weights_sha256"], err


def test_ctrl_c_while_ray_starts_leaves_no_process(tmp_path: Path) -> None:
    with program(RLCORE, *TRAIN, cwd=tmp_path) as run:
        # Its head is there, and the rest is still to come.
        while len(run.running()) < 2:
            assert run.process.poll() is None
            time.sleep(0.02)
        os.killpg(run.process.pid, signal.SIGINT)
        _, err = run.process.communicate(timeout=PATIENCE)
        assert run.left() == []
    assert run.process.returncode == 130, err
    assert "Traceback" not in err


def test_two_ctrl_c_leave_no_process(tmp_path: Path) -> None:
    with program(RLCORE, *TRAIN, cwd=tmp_path) as run:
        run.wait_until(tmp_path / "run" / "progress.jsonl", '"iteration": 3')
        for _ in range(2):
            os.killpg(run.process.pid, signal.SIGINT)
        run.process.communicate(timeout=PATIENCE)
        assert run.left() == []
    result = RunFolder.open(tmp_path / "run").result()
    assert result is not None and result["status"] == "interrupted"


SCRIPT = """
import gymnasium, numpy, os, sys
import rlcore
from rlcore.testing.linear import LinearPG

class SomeEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return numpy.zeros(2, numpy.float32), {}

    def step(self, action):
        return numpy.zeros(2, numpy.float32), 1.0, False, False, {}

assert "ray" not in sys.modules
evaluators = [rlcore.PolicyEvaluator.remote(env=SomeEnv, graph=LinearPG, collect=rlcore.Fragment(5)) for _ in range(3)]
import ray
print([len(batch) for batch in ray.get([ev.sample.remote() for ev in evaluators])])
print(os.environ["RAY_AUTH_MODE"])
try:
    rlcore.PolicyEvaluator.remote(env=SomeEnv, graf=LinearPG)
except TypeError as error:
    print(error)
"""


def test_the_lines_of_the_paper_run_as_they_stand(tmp_path: Path) -> None:
    with program(SCRIPT, cwd=tmp_path) as run:
        out, err = run.process.communicate(timeout=PATIENCE)
        assert run.process.returncode == 0, err
        assert run.left() == []
    assert out.splitlines() == ["[5, 5, 5]", "token", "got an unexpected keyword argument 'graf'"]
    assert err == ""


def test_a_driver_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    waiting = f"{SCRIPT}\nopen('there', 'w').close()\nimport time\ntime.sleep(600)"
    with program(waiting, cwd=tmp_path) as run:
        run.wait_until(tmp_path / "there")
        run.process.kill()
        run.process.communicate()
        assert run.left(but=LINGERING) == []


def test_an_evaluator_of_a_program_that_talks_to_ray_itself(local_ray: str) -> None:
    import ray

    from rlcore.policy_evaluator import PolicyEvaluator
    from rlcore.testing.environments import CountEnv
    from rlcore.testing.linear import LinearPG

    settings: dict[str, Any] = {"env": CountEnv, "graph": LinearPG, "num_envs": 2, "rng": 5}
    handle = PolicyEvaluator.remote(**settings)
    here = PolicyEvaluator(**settings).sample()
    there = ray.get(handle.sample.remote())
    assert all((here[name] == there[name]).all() for name in here.rows)
    assert not there["obs"].flags.writeable
    ray.kill(handle)
