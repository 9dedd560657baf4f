"""Videos of episodes: an environment that films itself, and animated PNG files (APNG) to keep them in.

Every browser plays an animated PNG, it loses nothing, and it is written frame by frame with the standard library alone:
memory does not grow with the length of an episode. Format: Portable Network Graphics Specification (Third Edition),
chunks acTL, fcTL and fdAT.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns
from rlcore.env import BatchedEnv, StepBatch
from rlcore.envs import EnvSource, build_env, source_name
from rlcore.errors import EnvError, UserError

Frame = NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Where the number of frames stands: after the signature, the whole IHDR chunk, and the head of acTL.
_FRAMES_AT = len(_SIGNATURE) + 25 + 8


class AnimatedPNG:
    """Writes frames uint8 ``[height, width, 3]``, all of one size, into one file; only what changed is stored.

    Until ``finish`` is called the file has another name; ``discard`` removes it.
    """

    def __init__(self, path: Path, frames_per_second: int = 30) -> None:
        self.path = path
        self.frames = 0
        self._unfinished = path.with_name(f".{path.name}")
        self._file: BinaryIO = open(self._unfinished, "wb")  # noqa: SIM115  (closed by finish or discard)
        self._delay = frames_per_second
        self._numbered = 0
        self._last: Frame | None = None

    def add(self, frame: Frame) -> None:
        """Appends one frame. ``ValueError`` for one of another size or type."""
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
            raise ValueError(f"a frame is uint8 [height, width, 3], not {frame.dtype} {list(frame.shape)}")
        if self._last is None:
            height, width = frame.shape[:2]
            self._file.write(_SIGNATURE)
            self._chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
            self._chunk(b"acTL", struct.pack(">2I", 0, 0))
            top, left, changed = 0, 0, frame
        else:
            if frame.shape != self._last.shape:
                raise ValueError(f"a frame of size {list(frame.shape)} among those of {list(self._last.shape)}")
            top, left, changed = _changed(self._last, frame)
        self._control(top, left, changed)
        # Each line begins with the number of its filter; 0 is none.
        lines = np.zeros((changed.shape[0], 1 + changed.shape[1] * 3), np.uint8)
        lines[:, 1:] = changed.reshape(changed.shape[0], -1)
        data = zlib.compress(lines.tobytes(), 6)
        if self.frames == 0:
            self._chunk(b"IDAT", data)
        else:
            self._chunk(b"fdAT", self._next_number() + data)
        self._last = frame.copy()
        self.frames += 1

    def finish(self) -> None:
        """Completes the file under its own name."""
        self._chunk(b"IEND", b"")
        self._file.seek(_FRAMES_AT - 8)
        self._chunk(b"acTL", struct.pack(">2I", self.frames, 0))
        self._file.close()
        self._unfinished.replace(self.path)

    def discard(self) -> None:
        """Removes what was written."""
        self._file.close()
        self._unfinished.unlink(missing_ok=True)

    def _control(self, top: int, left: int, changed: Frame) -> None:
        height, width = changed.shape[:2]
        fields = struct.pack(">4I2H2B", width, height, left, top, 1, self._delay, 0, 0)
        self._chunk(b"fcTL", self._next_number() + fields)

    def _next_number(self) -> bytes:
        self._numbered += 1
        return struct.pack(">I", self._numbered - 1)

    def _chunk(self, name: bytes, content: bytes) -> None:
        self._file.write(
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )


def _changed(old: Frame, new: Frame) -> tuple[int, int, Frame]:
    """``(top, left, part)``: the smallest rectangle of ``new`` that holds all pixels that differ; never empty."""
    differs = (old != new).any(axis=2)
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not len(rows):
        return 0, 0, new[:1, :1]
    return int(rows[0]), int(columns[0]), new[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _slots(ready: Mapping[str, StepBatch], flag: str | None) -> list[int]:
    """The slots in ``ready`` of which some row has ``flag`` set, or all of them, each once."""
    found: set[int] = set()
    for step in ready.values():
        found.update(step.slot.tolist() if flag is None else step.slot[getattr(step, flag)].tolist())
    return sorted(found)


class Film(BatchedEnv):
    """An environment that writes a video of every episode that ends: ``episode-0001.png``, ``episode-0002.png`` ...

    The frame after the last step is missing where the source resets in that step. Give it ``env`` to an evaluator
    through :class:`FilmSource`.
    """

    def __init__(self, env: BatchedEnv, folder: Path) -> None:
        self._env = env
        self._folder = folder
        self._running: dict[int, AnimatedPNG] = {}
        self._begun = 0
        self.groups, self.num_slots, self.name, self.lockstep = env.groups, env.num_slots, env.name, env.lockstep

    def reset(self, seed: int | None) -> None:
        self._env.reset(seed)
        self._drop_running()

    def poll(self, timeout: float | None) -> dict[str, StepBatch]:
        ready = self._env.poll(timeout)
        for slot in _slots(ready, "episode_over"):
            if slot in self._running:
                self._running.pop(slot).finish()
        for slot in _slots(ready, "first"):
            # An agent that joins a running episode opens none.
            if slot not in self._running:
                self._begun += 1
                self._running[slot] = AnimatedPNG(self._folder / f"episode-{self._begun:04d}.png")
        for slot in _slots(ready, None):
            if slot in self._running:
                self._running[slot].add(self._frame(slot))
        return ready

    def _frame(self, slot: int) -> Frame:
        frame = self._env.render(slot)
        if frame is None:
            raise EnvError(f"environment '{self.name}' cannot be drawn: it renders no RGB frames")
        return np.asarray(frame, np.uint8)

    def _drop_running(self) -> None:
        for recording in self._running.values():
            recording.discard()
        self._running = {}

    def send(self, actions: Mapping[str, tuple[NDArray[Any], Columns]]) -> None:
        self._env.send(actions)

    def get_state(self) -> dict[str, Any] | None:
        return self._env.get_state()

    def set_state(self, state: dict[str, Any]) -> list[int]:
        self._drop_running()
        return self._env.set_state(state)

    def render(self, slot: int) -> Frame | None:
        return self._env.render(slot)

    def close(self) -> None:
        self._drop_running()
        self._env.close()


class FilmSource:
    """A callable that makes ``source`` film itself into ``folder``: what an evaluator takes as its environment.

    Where the environment draws nothing as it is, it is made again with ``render_mode="rgb_array"`` (Gymnasium's way).
    Raises ``EnvError`` where that does not help, ``UserError`` where the folder cannot be made.
    """

    def __init__(self, source: EnvSource, folder: Path) -> None:
        self._source = source
        self._folder = folder

    def __call__(self, num_envs: int, **settings: Any) -> BatchedEnv:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write videos into {self._folder}: {error.strerror or error}") from error
        for own in (settings, {**settings, "render_mode": "rgb_array"}):
            env = build_env(self._source, num_envs, own)
            env.reset(0)
            if env.render(0) is not None:
                return Film(env, self._folder)
            env.close()
        raise EnvError(f"environment '{source_name(self._source)}' cannot be drawn: it renders no RGB frames")
