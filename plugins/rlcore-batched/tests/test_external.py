"""External simulators: the protocol, who is refused, simulators that are lost, and what becomes rows."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlcore
from rlcore.env import DEFAULT_GROUP, BatchedEnv
from rlcore.envs import build_env
from rlcore.errors import ConfigError, EnvError, UnknownPluginError
from rlcore.sampling.collect import Fragment
from rlcore.testing.linear import LinearPG
from rlcore_batched.client import Client, Refused
from rlcore_batched.messages import ACT, END, HELLO, VERSION, message

SPACES = {
    "observation_space": {"type": "Box", "low": -100, "high": 100, "shape": [1]},
    "action_space": {"type": "Discrete", "n": 2},
    "token": "secret",
}


@contextlib.contextmanager
def listening(num_envs: int = 2, address: str = "127.0.0.1:0", **settings: Any) -> Iterator[Any]:
    env: Any = build_env(f"external:{address}", num_envs, {**SPACES, **settings})
    env.reset(0)
    try:
        yield env
    finally:
        env.close()


def in_thread(run: Any) -> threading.Thread:
    def quietly() -> None:
        with contextlib.suppress(ConnectionError):
            run()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    return thread


def count(address: str, episodes: int = 10**9, truncated: bool = True) -> None:
    """The environment Count: observations 10, 11, 12, ending on 13, reward 1 a step."""
    with Client(address, token="secret") as client:
        for _ in range(episodes):
            for t in range(3):
                client.action([10.0 + t])
                client.log_return(1.0)
            client.end_episode([13.0], truncated=truncated)


def evaluator(address: str, steps: int, num_envs: int = 1) -> rlcore.PolicyEvaluator:
    return rlcore.PolicyEvaluator(
        env=f"external:{address}",
        env_settings=SPACES,
        graph=LinearPG,
        num_envs=num_envs,
        collect=Fragment(steps),
        rng=0,
    )


@pytest.mark.parametrize("truncated", [True, False])
def test_B001_B002_B003_B015_rows_and_endings(tmp_path: Path, truncated: bool) -> None:
    address = str(tmp_path / "socket")
    made = evaluator(address, 9)
    in_thread(lambda: count(address, truncated=truncated))
    batch = made.sample()
    assert isinstance(batch, rlcore.SampleBatch)
    rows = len(batch)
    np.testing.assert_array_equal(batch["obs"][:, 0], np.tile([10.0, 11.0, 12.0], 4)[:rows])
    np.testing.assert_array_equal(batch["rewards"], np.ones(rows))
    np.testing.assert_array_equal(batch["t"], np.tile([0, 1, 2], 4)[:rows])
    ends = batch["truncated"] if truncated else batch["terminated"]
    np.testing.assert_array_equal(ends, batch["t"] == 2)
    ended = batch["t"][batch.last_rows()] == 2
    np.testing.assert_array_equal(batch.cuts["last_obs"][ended, 0], 13.0)
    made.env.close()


def test_actions_reach_the_one_who_asked() -> None:
    seen: dict[float, list[int]] = {0.0: [], 50.0: []}

    def simulate(address: str, base: float) -> None:
        with Client(address, token="secret") as client:
            for t in range(20):
                seen[base].append(int(client.action([base + t])))

    with listening() as env:
        threads = [in_thread(lambda base=base: simulate(env.address, base)) for base in seen]
        while any(len(own) < 20 for own in seen.values()):
            with contextlib.suppress(TimeoutError):
                step = env.poll(0.1)[DEFAULT_GROUP]
                rows = np.flatnonzero(step.needs_action)
                env.send({DEFAULT_GROUP: (step.slot[rows], step.obs[rows, 0].astype(np.int64) % 2)})
        for thread in threads:
            thread.join(5)
    assert all(own == [int(base + t) % 2 for t in range(20)] for base, own in seen.items())


def test_B062_poll_waits_no_longer_than_it_may() -> None:
    with listening() as env:
        begin = time.monotonic()
        with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
            env.poll(0.05)
        assert time.monotonic() - begin < 5


def test_a_wrong_token_is_refused_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with listening() as env, caplog.at_level(logging.WARNING):
        with pytest.raises(Refused, match="a wrong token"):
            Client(env.address, token="guess")
        assert "refused: a wrong token" in caplog.text
        Client(env.address, token="secret").close()


def test_more_simulators_than_slots_are_refused() -> None:
    with (
        listening(num_envs=1) as env,
        Client(env.address, "secret"),
        pytest.raises(Refused, match="all 1 slots are taken"),
    ):
        Client(env.address, "secret")


GREETING = message(HELLO, bytes([VERSION]) + b"secret")


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff\x04",
        b"\0\0\0\0\0",
        message(ACT, b""),
        message(HELLO, b"\x63secret"),
        GREETING + message(99, b"abc"),
        GREETING + message(ACT, b"\0" * 7),
        GREETING + message(END, b"\0" * 9),
        GREETING + message(ACT, b"\0\0\xc0\x7f" + b"\0" * 4),
        GREETING + message(ACT, b"\0" * 4 + b"\0\0\xc0\x7f"),
        GREETING + 2 * message(ACT, b"\0" * 8),
    ],
    ids=["too long", "empty", "no token", "version", "kind", "short", "no episode", "NaN reward", "NaN", "twice"],
)
def test_malformed_messages_are_refused_and_logged(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with listening() as env, caplog.at_level(logging.WARNING):
        host, port = env.address.split(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(sent)
            received = b""
            with contextlib.suppress(ConnectionError):
                while part := connection.recv(4096):
                    received += part
        for _ in range(100):
            if "was refused" in caplog.text:
                break
            time.sleep(0.01)
        assert "was refused" in caplog.text
        Client(env.address, "secret").close()


def test_ten_thousand_random_messages_crash_nothing() -> None:
    rng = np.random.default_rng(0)
    logging.getLogger("rlcore_batched.external_server").setLevel(logging.ERROR)
    try:
        with listening() as env:
            host, port = env.address.split(":")
            sent = 0
            while sent < 10_000:
                with socket.create_connection((host, int(port)), timeout=5) as connection, contextlib.suppress(OSError):
                    if rng.random() < 0.5:
                        connection.sendall(GREETING)
                    for _ in range(20):
                        sent += 1
                        body = rng.bytes(int(rng.integers(0, 40)))
                        well_formed = message(int(rng.integers(0, 9)), body)
                        connection.sendall(well_formed if rng.random() < 0.7 else body)
            in_thread(lambda: count(env.address))
            for _ in range(12):
                step = _own(env)
                rows = np.flatnonzero(step.needs_action)
                env.send({DEFAULT_GROUP: (step.slot[rows], np.zeros(len(rows), np.int64))})
            assert env._server._thread.is_alive()
    finally:
        logging.getLogger("rlcore_batched.external_server").setLevel(logging.NOTSET)


def _own(env: BatchedEnv) -> Any:
    """What is handed over by those who wait for an action."""
    while True:
        step = env.poll(10.0)[DEFAULT_GROUP]
        if step.needs_action.any():
            return step


SCRIPT = """
import sys
from rlcore_batched.client import Client
assert not {"rlcore", "ray", "torch", "gymnasium"} & set(sys.modules)
with Client(sys.argv[1], token="secret") as client:
    while True:
        for t in range(int(sys.argv[2])):
            client.action([t])
            client.log_return(1.0)
        client.end_episode([int(sys.argv[2])])
"""


def test_a_simulator_that_was_killed_and_started_again_goes_on(tmp_path: Path) -> None:
    """What was sampled before is cut off where the last action was chosen, and nothing is joined across the loss."""
    address = str(tmp_path / "socket")
    made = evaluator(address, 40)

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", SCRIPT, address, "1000000"])

    simulator = start()
    try:
        batch = made.sample()
        simulator.kill()
        simulator.wait()
        simulator = start()
        after = made.sample()
    finally:
        simulator.kill()
        simulator.wait()
        made.env.close()
    for sampled in (batch, after):
        assert isinstance(sampled, rlcore.SampleBatch)
        np.testing.assert_array_equal(sampled["obs"][:, 0], sampled["t"])
        assert (sampled["rewards"] == 1.0).all()
    assert after["t"][0] >= 39 or after["t"][0] == 0
    assert 0 in after["t"] and len(after) >= 38
    assert made.metrics().lost_steps <= 1


def test_reset_begins_episodes_where_simulators_are() -> None:
    with listening(num_envs=1) as env:
        in_thread(lambda: count(env.address))
        for _ in range(2):
            step = _own(env)
            env.send({DEFAULT_GROUP: (step.slot, np.zeros(1, np.int64))})
        step = _own(env)
        assert (step.obs[0, 0], step.first[0], step.env_step[0]) == (12.0, False, 2)
        env.reset(0)
        step = _own(env)
        assert (step.obs[0, 0], step.first[0], step.env_step[0], step.reward[0]) == (12.0, True, 0, 0.0)
        env.send({DEFAULT_GROUP: (step.slot, np.zeros(1, np.int64))})
        step = env.poll(5.0)[DEFAULT_GROUP]
        assert (step.terminated[0] | step.truncated[0], step.reward[0], step.final_obs[0, 0]) == (True, 1.0, 13.0)


def test_addresses_and_settings_that_do_not_fit() -> None:
    with pytest.raises(UnknownPluginError, match="neither HOST:PORT nor the path"):
        build_env("external:nowhere", 1, SPACES)
    with pytest.raises(ConfigError, match=r"env_settings\.observation_space: missing"):
        build_env("external:127.0.0.1:0", 1, {})
    with pytest.raises(ConfigError, match=r"env_settings\.tokn: unknown key"):
        build_env("external:127.0.0.1:0", 1, {**SPACES, "tokn": "x"})
    open_to_all = build_env("external:0.0.0.0:0", 1, {**SPACES, "token": ""})
    with pytest.raises(EnvError, match="set a token"):
        open_to_all.reset(0)


def test_one_address_is_served_once(tmp_path: Path) -> None:
    address = str(tmp_path / "socket")
    with listening(address=address):
        other = build_env(f"external:{address}", 1, SPACES)
        with pytest.raises(EnvError, match="cannot be served"):
            other.reset(0)
    with listening(address=address) as env, Client(env.address, "secret"):
        pass


def test_spaces_may_be_those_of_another_environment() -> None:
    env = build_env("external:127.0.0.1:0", 1, {"spaces_of": "batched:cartpole"})
    assert env.groups == build_env("batched:cartpole", 1, {}).groups


def test_simulators_are_told_that_the_trainer_has_ended() -> None:
    with listening() as env, Client(env.address, "secret") as client:
        env.close()
        with pytest.raises(ConnectionError, match="the trainer has ended"):
            client.action([1.0])


def test_the_client_checks_what_it_is_given() -> None:
    with listening() as env, Client(env.address, "secret") as client:
        with pytest.raises(ValueError, match=r"expected float32 of shape \(1,\)"):
            client.action([1.0, 2.0])
        with pytest.raises(ValueError, match="the reward is not finite: nan"):
            client.log_return(float("nan"))
        with pytest.raises(ValueError, match="the reward is no number: 'much'"):
            client.log_return("much")  # type: ignore[arg-type]
        client.log_return(3e38)
        with pytest.raises(ValueError, match=r"too large for float32: 6e\+38"):
            client.log_return(3e38)
        for wrong in (np.nan, np.inf, 1e39):
            with pytest.raises(ValueError, match="an observation is not finite, or too large for float32"):
                client.action([wrong])


def test_the_client_refuses_what_is_neither_a_token_nor_a_flag_nor_a_number() -> None:
    with listening() as env:
        with pytest.raises(TypeError, match="the token is a string, not None"):
            Client(env.address, token=None)  # type: ignore[arg-type]
        with Client(env.address, "secret") as client:
            with pytest.raises(ValueError, match="the reward is no number: None"):
                client.log_return(None)  # type: ignore[arg-type]
            for wrong in ("yes", 2, None, 0.5):
                with pytest.raises(ValueError, match=f"truncated is True or False, not {wrong!r}"):
                    client.end_episode([1.0], truncated=wrong)  # type: ignore[arg-type]


def test_flags_of_numpy_end_episodes() -> None:
    with listening(num_envs=1) as env:

        def simulate() -> None:
            with Client(env.address, token="secret") as client:
                client.action([1.0])
                client.end_episode([2.0], truncated=np.True_)  # type: ignore[arg-type]
                client.action([3.0])

        in_thread(simulate)
        step = _own(env)
        env.send({DEFAULT_GROUP: (step.slot, np.zeros(1, np.int64))})
        assert env.poll(10.0)[DEFAULT_GROUP].truncated.tolist() == [True]


@pytest.mark.parametrize("value", [300, -129, 2**40])
def test_integers_that_the_observation_cannot_hold_do_not_wrap(value: int) -> None:
    space = {"type": "Box", "low": -128, "high": 127, "shape": [1], "dtype": "int8"}
    with (
        listening(observation_space=space) as env,
        Client(env.address, "secret", timeout=5.0) as client,
        pytest.raises(ValueError, match="an observation does not fit int8"),
    ):
        client.action([value])


@pytest.mark.parametrize("ends", [False, True])
def test_B046_observations_outside_their_space_are_refused_and_logged(
    ends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The bounds of floats count as they do for environments of this process, with the same tolerance."""
    space = {"type": "Box", "low": -1, "high": 1, "shape": [1]}
    with listening(num_envs=1, observation_space=space) as env, caplog.at_level(logging.WARNING):

        def simulate() -> None:
            with Client(env.address, "secret") as client:
                client.action([1.00001])
                if ends:
                    client.end_episode([10.0])
                client.action([-10.0])

        refused: list[str] = []

        def told() -> None:
            try:
                simulate()
            except Refused as error:
                refused.append(str(error))

        thread = in_thread(told)
        step = _own(env)
        env.send({DEFAULT_GROUP: (step.slot, np.zeros(1, np.int64))})
        thread.join(10)
        wrong = r"slot 0, step 1 of its episode: 'obs' is outside its space: [10.]"
        assert refused == [f"environment '{env.name}', " + (wrong if ends else wrong.replace("10", "-10"))]
        assert "was refused" in caplog.text


def test_B042_rewards_as_arrays_of_one_number() -> None:
    with listening(num_envs=1) as env:

        def simulate() -> None:
            with Client(env.address, token="secret") as client:
                client.action([1.0])
                client.log_return(np.array([2.5]))  # type: ignore[arg-type]
                client.action([2.0])

        in_thread(simulate)
        step = _own(env)
        env.send({DEFAULT_GROUP: (step.slot, np.zeros(1, np.int64))})
        assert _own(env).reward.tolist() == [2.5]


def test_after_a_restored_state_all_episodes_begin_anew() -> None:
    with listening(num_envs=1) as env:
        in_thread(lambda: count(env.address))
        for _ in range(2):
            step = _own(env)
            env.send({DEFAULT_GROUP: (step.slot, np.zeros(1, np.int64))})
        assert _own(env).env_step.tolist() == [2]
        assert env.get_state() is None
        assert env.set_state({}) == [0]
        step = _own(env)
        assert (step.first[0], step.env_step[0], step.reward[0]) == (True, 0, 0.0)
