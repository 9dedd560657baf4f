"""ExternalEnv: simulators in other processes as a BatchedEnv."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.env import DEFAULT_GROUP, BatchedEnv, Spaces, StepBatch
from rlcore.errors import BadValueError
from rlcore.sampling.observation_check import ObservationCheck
from rlcore_batched.actions import checked_actions
from rlcore_batched.external_server import ExternalServer, Formats, Heard, Malformed

LOGGER = logging.getLogger(__name__)

#: Seconds without anything to hand over after which the log says what is waited for.
SILENCE = 30.0


class ExternalEnv(BatchedEnv):
    """Each simulator that connects has a slot; slots without one are never ready.

    ``reset`` begins to listen. It cannot reset what runs elsewhere: what a simulator says next counts as the opening of
    an episode. Where a simulator was lost and another one takes its slot, the row that opens its episode is ``first``
    while an action was under way: the step of that did not happen.
    """

    def __init__(self, address: str, token: str, spaces: Spaces, num_slots: int, name: str) -> None:
        self.groups = {DEFAULT_GROUP: spaces}
        self.num_slots = num_slots
        self.name = name
        #: Where it listens, once it does: with the port that was chosen where 0 was asked for.
        self.address = address
        self._token = token
        self._check = ObservationCheck(spaces[0], name)
        self._server: ExternalServer | None = None
        self._obs_type = np.dtype(spaces[0].dtype).newbyteorder("<")
        self._obs_shape = tuple(spaces[0].shape or ())
        self._news = threading.Condition()
        self._clear()

    def _clear(self) -> None:
        """What has been heard since the last poll, and what waits for an action, by slot."""
        n = self.num_slots
        self._obs, self._final = (np.zeros((n, *self._obs_shape), self._obs_type) for _ in range(2))
        self._reward = np.zeros(n, np.float64)
        self._terminated, self._truncated, self._first, self._asks, self._waiting = np.zeros((5, n), np.bool_)
        self._t = np.zeros(n, np.int64)
        self._ended_at = np.zeros(n, np.int64)
        #: By slot: the question that was asked last, and the one that was handed over.
        self._asked, self._handed = np.zeros((2, n), np.int64)
        #: Slots whose running episode began before a reset: nothing of it counts.
        self._cut = np.zeros(n, np.bool_)

    def reset(self, seed: int | None) -> None:
        if self._server is None:
            self._server = ExternalServer(
                self.address, self._token, self.num_slots, self._formats(), self._hear, self._lose
            )
            self.address = self._server.address
            LOGGER.info("%s: simulators are awaited at %s", self.name, self.address)
            return
        with self._news:
            asks, obs, asked = self._asks | self._waiting, self._obs, self._asked
            self._clear()
            # Those that wait for an action go on from where they are.
            self._asks, self._first, self._obs, self._asked = asks, asks.copy(), obs, asked
            self._cut = ~asks

    def _formats(self) -> Formats:
        spaces = self.groups[DEFAULT_GROUP]
        greeting = {
            name: {"shape": list(space.shape or ()), "dtype": np.dtype(space.dtype).newbyteorder("<").str}
            for name, space in zip(("obs", "action"), spaces, strict=True)
        }
        return Formats(greeting, int(np.prod(self._obs_shape, dtype=np.int64)) * self._obs_type.itemsize)

    def _hear(self, heard: Heard) -> None:
        slot, obs = heard.slot, np.frombuffer(heard.observation, self._obs_type).reshape(self._obs_shape)
        step = 0 if heard.opens or self._cut[slot] else self._t[slot] + 1
        try:
            self._check(obs[None], np.array([slot]), np.array([step]))
        except BadValueError as error:
            raise Malformed(str(error)) from None
        with self._news:
            cut, opens = bool(self._cut[slot]), heard.opens or bool(self._cut[slot])
            if not heard.question:
                if cut:
                    return
                self._final[slot] = obs
                (self._truncated if heard.truncated else self._terminated)[slot] = True
                self._ended_at[slot] = self._t[slot] + 1
            else:
                self._obs[slot], self._asked[slot] = obs, heard.question
                self._first[slot], self._asks[slot] = opens, True
                self._t[slot] = 0 if opens else self._t[slot] + 1
            self._reward[slot] += 0.0 if cut else heard.reward
            self._cut[slot] = False
            self._news.notify_all()

    def _lose(self, slot: int) -> None:
        """What its simulator asked for last is not answered; what ended before has ended."""
        with self._news:
            self._asks[slot] = self._cut[slot] = False
            if not (self._terminated[slot] or self._truncated[slot]):
                self._reward[slot] = 0.0

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        if self._server is None:
            raise RuntimeError(f"{self.name}: reset() has to come first")
        begin = time.monotonic()
        with self._news:
            while not (ready := self._asks | self._terminated | self._truncated).any():
                left = SILENCE if timeout is None else begin + timeout - time.monotonic()
                if left <= 0.0:
                    raise TimeoutError(f"{self.name}: no simulator asked for an action within {timeout} s")
                if not self._news.wait(left) and timeout is None:
                    waiting = int(self._waiting.sum())
                    LOGGER.warning("%s: no simulator speaks at %s (%d wait)", self.name, self.address, waiting)
            return {DEFAULT_GROUP: self._rows(np.flatnonzero(ready))}

    def _rows(self, slots: NDArray[np.int64]) -> StepBatch:
        terminated, truncated = self._terminated[slots], self._truncated[slots]
        over = terminated | truncated
        # An episode that has ended has a row to itself, whether the next one has opened by now or not.
        asks = self._asks[slots] & ~over
        native = self._obs_type.newbyteorder("=")
        step = StepBatch(
            slot=slots,
            agent_id=np.zeros(len(slots), np.int64),
            reward=self._reward[slots].astype(np.float32),
            terminated=terminated,
            truncated=truncated,
            final_obs=self._final[slots[over]].astype(native),
            obs=self._obs[slots].astype(native),
            first=self._first[slots] & asks,
            needs_action=asks,
            env_step=np.where(asks, self._t[slots], self._ended_at[slots]),
            episode_over=over,
        )
        self._waiting[slots] = asks
        self._handed[slots] = self._asked[slots]
        self._reward[slots] = 0.0
        self._terminated[slots] = self._truncated[slots] = False
        self._asks[slots[asks]] = self._first[slots[asks]] = False
        return step

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        if self._server is None:
            raise ValueError(f"{self.name}: reset() has to come first")
        if actions.keys() != {DEFAULT_GROUP}:
            raise ValueError(f"{self.name}: actions for {list(actions)}; there is one group, '{DEFAULT_GROUP}'")
        slots, chosen = actions[DEFAULT_GROUP]
        slots, space = np.asarray(slots), self.groups[DEFAULT_GROUP][1]
        checked = checked_actions(chosen, len(slots), len(slots), space, self.name)
        known = (slots >= 0) & (slots < self.num_slots)
        if not known.all() or not self._waiting[slots].all() or len(np.unique(slots)) < len(slots):
            raise ValueError(f"{self.name}: actions for slots {slots.tolist()}, not all of which wait for one")
        with self._news:
            self._waiting[slots] = False
            questions = self._handed[slots].tolist()
        little = checked.astype(np.dtype(space.dtype).newbyteorder("<"))
        for slot, question, action in zip(slots.tolist(), questions, little, strict=True):
            self._server.answer(slot, question, action.tobytes())

    def get_state(self) -> dict[str, Any] | None:
        return None

    def set_state(self, state: dict[str, Any]) -> list[int]:
        """What runs in other processes goes on where it is; for whoever samples, all episodes begin anew."""
        self.reset(None)
        return list(range(self.num_slots))

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
