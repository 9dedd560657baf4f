"""Video files that are written frame by frame, so that memory does not grow with the length of a video.

MP4 where something that encodes it is installed: H.264 with imageio-ffmpeg, which every browser plays, else MPEG-4 with
OpenCV. Animated PNG where there is neither.
"""

from __future__ import annotations

import importlib
import importlib.util
import struct
import zlib
from abc import ABC, abstractmethod
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlcore.errors import UserError

Frame = NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Where the number of frames stands: after the signature, the whole IHDR chunk, and the head of acTL.
_FRAMES_AT = len(_SIGNATURE) + 25 + 8


class VideoFile(ABC):
    """One video of frames uint8 ``[height, width, 3]``, all of one size.

    Until ``finish`` is called the file has another name; ``discard`` removes it. ``UserError`` where it cannot be
    written.
    """

    suffix: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        self.frames = 0
        self._unfinished = path.with_name(f".{path.name}")
        self._size: tuple[int, ...] | None = None

    def add(self, frame: Frame) -> None:
        """Appends one frame. ``ValueError`` for one of another size or type."""
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
            raise ValueError(f"a frame is uint8 [height, width, 3], not {frame.dtype} {list(frame.shape)}")
        if self._size is not None and frame.shape != self._size:
            raise ValueError(f"a frame of size {list(frame.shape)} among those of {list(self._size)}")
        self._size = frame.shape
        self._write(frame)
        self.frames += 1

    def finish(self) -> None:
        """Completes the file under its own name."""
        self._complete()
        self._unfinished.replace(self.path)

    def discard(self) -> None:
        """Removes what was written."""
        self._abandon()
        self._unfinished.unlink(missing_ok=True)

    @abstractmethod
    def _write(self, frame: Frame) -> None: ...

    @abstractmethod
    def _complete(self) -> None: ...

    @abstractmethod
    def _abandon(self) -> None: ...


class AnimatedPNG(VideoFile):
    """Animated PNG: every browser plays it, it loses nothing, and the standard library alone writes it.

    Only what changed is stored. Format: Portable Network Graphics Specification (Third Edition), chunks acTL, fcTL and
    fdAT.
    """

    suffix = ".png"

    def __init__(self, path: Path, frames_per_second: float = 30.0) -> None:
        super().__init__(path)
        self._file: BinaryIO = open(self._unfinished, "wb")  # noqa: SIM115  (closed by finish or discard)
        # A fraction of a second, of two numbers below 2**16.
        self._delay = Fraction(1 / frames_per_second).limit_denominator(1000)
        self._numbered = 0
        self._last: Frame | None = None

    def _write(self, frame: Frame) -> None:
        if self._last is None:
            height, width = frame.shape[:2]
            self._file.write(_SIGNATURE)
            self._chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
            self._chunk(b"acTL", struct.pack(">2I", 0, 0))
            top, left, changed = 0, 0, frame
        else:
            top, left, changed = _changed(self._last, frame)
        self._control(top, left, changed)
        # Each line begins with the number of its filter; 0 is none.
        lines = np.zeros((changed.shape[0], 1 + changed.shape[1] * 3), np.uint8)
        lines[:, 1:] = changed.reshape(changed.shape[0], -1)
        data = zlib.compress(lines.tobytes(), 6)
        if self._last is None:
            self._chunk(b"IDAT", data)
        else:
            self._chunk(b"fdAT", self._next_number() + data)
        self._last = frame.copy()

    def _complete(self) -> None:
        self._chunk(b"IEND", b"")
        self._file.seek(_FRAMES_AT - 8)
        self._chunk(b"acTL", struct.pack(">2I", self.frames, 0))
        self._file.close()

    def _abandon(self) -> None:
        self._file.close()

    def _control(self, top: int, left: int, changed: Frame) -> None:
        height, width = changed.shape[:2]
        fields = struct.pack(">4I2H2B", width, height, left, top, *self._delay.as_integer_ratio(), 0, 0)
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


#: Each slot that is filmed has an encoder: memory is worth more here than the smallest of files.
_FRUGAL = ["-threads", "1", "-preset", "ultrafast"]


class MP4(VideoFile):
    """MP4 by an encoder that is opened with the first frame, which shows the size."""

    suffix = ".mp4"

    def __init__(self, path: Path, frames_per_second: float = 30.0) -> None:
        super().__init__(path)
        self._speed = frames_per_second
        self._encoder: Any = None

    def _abandon(self) -> None:
        if self._encoder is not None:
            self._complete()


class H264(MP4):
    """Encoded by the ffmpeg that comes with imageio-ffmpeg."""

    def _write(self, frame: Frame) -> None:
        even = _even(frame)
        if self._encoder is None:
            ffmpeg = importlib.import_module("imageio_ffmpeg")
            size = even.shape[1], even.shape[0]
            path, speed = str(self._unfinished), self._speed
            self._encoder = ffmpeg.write_frames(
                path, size, fps=speed, macro_block_size=1, ffmpeg_log_level="error", output_params=_FRUGAL
            )
            self._encoder.send(None)
        try:
            self._encoder.send(even.tobytes())
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error}") from error

    def _complete(self) -> None:
        self._encoder.close()


class MPEG4(MP4):
    """Encoded by OpenCV."""

    def _write(self, frame: Frame) -> None:
        even = _even(frame)
        if self._encoder is None:
            cv2 = importlib.import_module("cv2")
            size = even.shape[1], even.shape[0]
            code = cv2.VideoWriter_fourcc(*"mp4v")
            self._encoder = cv2.VideoWriter(str(self._unfinished), code, self._speed, size)
            if not self._encoder.isOpened():
                raise UserError(f"cannot write {self.path}: OpenCV cannot encode MPEG-4 of size {list(size)}")
        # Blue comes first there.
        self._encoder.write(np.ascontiguousarray(even[:, :, ::-1]))

    def _complete(self) -> None:
        self._encoder.release()


def _even(frame: Frame) -> Frame:
    """With height and width even, as the encoders need them: the last line and column may be there twice."""
    height, width = frame.shape[:2]
    if height % 2 or width % 2:
        return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return frame


def best_format() -> type[H264] | type[MPEG4] | type[AnimatedPNG]:
    """What videos are written as: see above."""
    if importlib.util.find_spec("imageio_ffmpeg") is not None:
        return H264
    return MPEG4 if importlib.util.find_spec("cv2") is not None else AnimatedPNG
