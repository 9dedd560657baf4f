"""Environments that show stacks of frames, as batches of samples."""

from __future__ import annotations

import numpy as np

from rlcore.batch import SampleBatch, concat

K, SIDE = 4, 16


class Screens:
    """Environments that show stacks of random frames; episodes of random lengths begin with a frame repeated."""

    def __init__(self, slots: int, seed: int, *, frames: bool = True, longest: int = 12) -> None:
        self._rng = np.random.default_rng(seed)
        self._slots, self._frames, self._longest = slots, frames, longest
        self._episode = self._rows = 0
        self._running = [self._begin() for _ in range(slots)]

    def _frame(self) -> np.ndarray:
        return self._rng.integers(0, 255, (SIDE, SIDE), np.uint8)

    def _begin(self) -> dict[str, object]:
        self._episode += 1
        stack = np.repeat(self._frame()[None], K, axis=0)
        return {"id": self._episode, "t": 0, "stack": stack, "left": int(self._rng.integers(1, self._longest))}

    def sample(self, steps: int) -> SampleBatch:
        """``steps`` steps of every slot."""
        parts = []
        for slot in range(self._slots):
            left = steps
            while left:
                one = self._running[slot]
                size = min(left, one["left"])  # type: ignore[call-overload]
                parts.append(self._piece(slot, one, size))
                left -= size
                if not one["left"]:
                    self._running[slot] = self._begin()
        return concat(parts)

    def _piece(self, slot: int, one: dict, size: int) -> SampleBatch:  # type: ignore[type-arg]
        stacks = []
        self._rows += size
        for _ in range(size + 1):
            stacks.append(one["stack"])
            following = np.concatenate([one["stack"][1:], self._frame()[None]])
            one["stack"] = following if self._frames else self._rng.integers(0, 255, following.shape, np.uint8)
        one["stack"] = stacks[-1]
        t, one["t"], one["left"] = one["t"], one["t"] + size, one["left"] - size
        ends = np.zeros(size, bool)
        ends[-1] = not one["left"]
        return SampleBatch(
            {
                "obs": np.stack(stacks[:-1]),
                # A number of its own for each row.
                "actions": np.arange(self._rows - size, self._rows),
                "rewards": self._rng.random(size).astype(np.float32),
                "terminated": ends,
                "truncated": np.zeros(size, bool),
                "t": np.arange(t, t + size, dtype=np.int32),
            },
            {
                "start": np.array([0]),
                "length": np.array([size]),
                "slot": np.array([slot], np.int32),
                "agent_id": np.array(["agent"]),
                "eps_id": np.array([one["id"]]),
                "bootstrap": ~ends[-1:],
                "last_obs": stacks[-1][None],
            },
        )
