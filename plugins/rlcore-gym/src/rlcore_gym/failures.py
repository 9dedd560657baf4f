"""What an environment did wrong, said so that its author can find it: which copy, at which step, and its own trace."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from types import TracebackType
from typing import Protocol

from gymnasium.error import DependencyNotInstalled

from rlcore.errors import EnvError

LOGGER = logging.getLogger(__name__)

#: Frames of the environment's own trace that a message repeats, the innermost last.
FRAMES = 3

_HERE = Path(__file__).parent

OLD_GYM = "the Gym API before 0.26; Gymnasium's step() returns (observation, reward, terminated, truncated, info)"
OLD_RESET = "the Gym API before 0.26; Gymnasium's reset() returns (observation, info)"


class ActionsError(EnvError, ValueError):
    """Actions that do not answer the rows that wait for one: their number, their slots, their shape or their type."""


class Misfit(Exception):
    """A value that an environment returned is not of its space; ``row`` says whose, ``problem`` what is wrong."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(row, problem)
        self.row = row
        self.problem = problem


#: What code of an environment may raise that is its failure. A program that calls ``sys.exit`` deep in a simulator does
#: not know that it is part of another one; Ctrl-C is nobody's failure.
FAILURES = (Exception, SystemExit)


def raised(where: str, call: str, cause: BaseException) -> EnvError:
    """The error for an exception that left ``call``; raise it ``from`` the cause.

    It repeats the end of the trace, but where a package is missing: the trace tells nothing then.
    """
    if isinstance(cause, DependencyNotInstalled):
        return EnvError(f"{where}: {call} needs a package: {' '.join(str(cause).split())}")
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        return EnvError(f"{where}: {call} needs the module '{cause.name}', which is not installed")
    said = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    return EnvError(f"{where}: {call} raised {said}{_own_trace(cause.__traceback__)}")


class Closing(Protocol):
    """What can be closed."""

    def close(self) -> None: ...


def close(env: Closing, where: str) -> None:
    """Closes a copy that is not needed any more.

    A failure is a warning: it harms nothing that was played, and other copies have to be closed as well.
    """
    try:
        env.close()
    except FAILURES as error:
        LOGGER.warning("%s", raised(where, "close()", error))


def _own_trace(trace: TracebackType | None) -> str:
    """The last frames, as Python prints them, but for those of the callers here."""
    frames = [frame for frame in traceback.extract_tb(trace) if Path(frame.filename).parent != _HERE][-FRAMES:]
    return ("\n" + "".join(traceback.format_list(frames)).rstrip("\n")) if frames else ""
