"""Games that raise and workers that are killed or hang: what begins anew, and what is kept of it."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Mapping
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlcore import restarts
from rlcore.env import BatchedEnv
from rlcore.errors import BadValueError, EnvError
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.sampling.collect import Fragment
from rlcore.testing.linear import LinearPG
from rlcore_multiagent import Ending, Stage, Turn, worker_main
from rlcore_multiagent.making import staged_env
from rlcore_multiagent.settings import StageSettings

# Classes of this file cannot be imported in worker processes.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPACES = Box(0, 1000, (3,), np.float32), Discrete(2)
LENGTH = 10


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "PAUSE", 0.001)


class Doomed(Stage):
    """Two players move in turn, ten moves a game, and see ``(seed's last digits, move, who)``.

    Before each move it looks for the file ``fate`` in ``folder``, takes it away, and meets what stands in it.
    """

    agents = ("a", "b")
    spaces = [SPACES, SPACES]

    def __init__(self, folder: str) -> None:
        self._fate = Path(folder) / "fate"
        self._seed = self._t = 0

    def open(self, seed: int) -> Turn:
        self._seed, self._t = seed % 997, 0
        return Turn({}, {}, {0: self._see(0)}, False)

    def _see(self, who: int) -> Any:
        return np.array([self._seed, self._t, who], np.float32)

    def step(self, actions: Mapping[int, Any]) -> Turn:
        self._meet()
        self._t += 1
        if self._t < LENGTH:
            return Turn({0: 1.0, 1: 1.0}, {}, {self._t % 2: self._see(self._t % 2)}, False)
        return Turn({0: 1.0, 1: 1.0}, {who: Ending(self._see(who), True) for who in (0, 1)}, {}, True)

    def _meet(self) -> None:
        try:
            fate, _, step = self._fate.read_text().partition(" ")
            if self._t != int(step):
                return
            self._fate.unlink()
        except FileNotFoundError:
            return
        match fate:
            case "raise":
                raise RuntimeError("as the file says")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(600.0)
            case "lie":
                raise BadValueError("what it says is no observation")


def sampler(folder: Path, **settings: Any) -> PolicyEvaluator:
    def build(num_envs: int) -> BatchedEnv:
        own = StageSettings(**settings)
        return staged_env(lambda: Doomed(str(folder)), num_envs, "doomed", own)

    return PolicyEvaluator(env=build, graph=LinearPG, num_envs=4, collect=Fragment(30), rng=1)


@pytest.mark.parametrize(
    ("fate", "workers", "step", "shuffle_seats"),
    [
        ("raise", 0, 0, False),
        ("raise", 0, 1, True),
        ("raise", 0, 7, True),
        ("raise", 2, 7, False),
        ("kill", 2, 0, True),
        ("kill", 2, 7, False),
        ("hang", 2, 1, False),
    ],
)
def test_what_failed_begins_anew_and_batches_hold_what_happened(
    fate: str, workers: int, step: int, shuffle_seats: bool, tmp_path: Path
) -> None:
    settings = {"workers": workers, "on_failure": "restart", "shuffle_seats": shuffle_seats}
    evaluator = sampler(tmp_path, step_timeout=2.0 if fate == "hang" else 60.0, **settings)
    evaluator.sample()
    (tmp_path / "fate").write_text(f"{fate} {step}")
    pieces: dict[Any, list[Any]] = {}
    for _ in range(2):
        batch = evaluator.sample()
        for i in range(batch.pieces):
            piece = batch.take_pieces([i])
            key = int(piece.cuts["eps_id"][0]), str(piece.cuts["agent_id"][0])
            pieces.setdefault(key, []).append(piece)
    assert not (tmp_path / "fate").exists()
    assert evaluator.metrics().lost_steps >= 1
    evaluator.close()
    seeds: dict[int, set[float]] = {}
    for (episode, agent), own in pieces.items():
        rows = np.concatenate([piece["obs"] for piece in own])
        assert (np.diff(rows[:, 1]) == 2).all(), f"agent {agent} moves every other time: {rows[:, 1]}"
        assert len(set(rows[:, 2].tolist())) == 1, "and keeps its seat"
        seeds.setdefault(episode, set()).update(rows[:, 0].tolist())
        for piece in own:
            # What came of a move was waited for: both are paid 1 for each of two moves, and for the last one alone.
            assert piece["rewards"].tolist() == [2.0 if not over or move < 9 else 1.0 for over, move in zip(
                piece["terminated"].tolist(), piece["obs"][:, 1].tolist(), strict=True)]
    # Each episode is one game, and no game is played twice.
    assert all(len(own) == 1 for own in seeds.values())
    assert len({seed for own in seeds.values() for seed in own}) == len(seeds)


@pytest.mark.parametrize(
    ("fate", "workers", "message"),
    [
        ("raise", 0, r"doomed, slot 0, step 3: step\(\) raised RuntimeError: as the file says"),
        ("raise", 2, r"doomed, slot \d, step 3: step\(\) raised RuntimeError: as the file says"),
        ("kill", 2, r"doomed: worker \d, process \d+ was killed by SIGKILL: the system may have run out of memory"),
        ("hang", 1, r"doomed: worker 0, process \d+ did not answer for 2 s \(step_timeout\)"),
    ],
)
def test_without_restarts_it_ends_the_run(fate: str, workers: int, message: str, tmp_path: Path) -> None:
    evaluator = sampler(tmp_path, workers=workers, step_timeout=0.5)
    (tmp_path / "fate").write_text(f"{fate} 3")
    with pytest.raises(EnvError, match=message):
        evaluator.sample()
    evaluator.close()


def test_what_is_against_the_contract_never_begins_anew(tmp_path: Path) -> None:
    evaluator = sampler(tmp_path, on_failure="restart")
    (tmp_path / "fate").write_text("lie 3")
    with pytest.raises(BadValueError, match="doomed, slot 0, step 3: what it says is no observation"):
        evaluator.sample()


class Hopeless(Doomed):
    """Fails in the second move of each game."""

    def _meet(self) -> None:
        if self._t == 1:
            raise RuntimeError("again")


def test_what_fails_again_and_again_ends_the_run() -> None:
    def build(num_envs: int) -> BatchedEnv:
        return staged_env(lambda: Hopeless("/"), num_envs, "hopeless", StageSettings(on_failure="restart"))

    with pytest.raises(EnvError, match=r"raised RuntimeError: again\n(?s:.*)began anew 3 times and failed again"):
        PolicyEvaluator(env=build, graph=LinearPG, collect=Fragment(30), rng=1).sample()


def test_a_state_goes_on_after_a_loss(tmp_path: Path) -> None:
    """The episodes that follow a loss are numbered apart, in a restored environment as well."""
    first = sampler(tmp_path, workers=2, on_failure="restart")
    first.sample()
    (tmp_path / "fate").write_text("kill 4")
    first.sample()
    state = first.get_state()
    second = sampler(tmp_path)
    second.set_state(state)
    mine, other = first.sample(), second.sample()
    for name, column in mine.rows.items():
        np.testing.assert_array_equal(other.rows[name], column, err_msg=name)
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("fine", "value", "said"),
    [(True, lambda: 0, "it cannot be sent: "), (False, KeyError(lambda: 0), "KeyError: <function")],
    ids=["answer", "exception"],
)
def test_what_cannot_be_pickled_is_an_error_and_never_an_answer(fine: bool, value: object, said: str) -> None:
    ours, theirs = Pipe()
    worker_main._answer(theirs, fine, value)
    answered, error = pickle.loads(ours.recv_bytes())
    assert not answered and isinstance(error, RuntimeError) and str(error).startswith(said)
