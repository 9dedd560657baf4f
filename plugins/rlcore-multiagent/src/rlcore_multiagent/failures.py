"""What a game did wrong, said so that its author can find it: which copy, at which step, and its own trace."""

from __future__ import annotations

import traceback

from rlcore.errors import EnvError

#: Frames of the game's own trace that a message repeats, the innermost last.
FRAMES = 3

#: What code of a game may raise that is its failure; Ctrl-C is nobody's.
FAILURES = (Exception, SystemExit)


class ActionsError(EnvError, ValueError):
    """Actions that do not answer the rows that wait for one."""


def raised(where: str, call: str, cause: BaseException) -> EnvError:
    """The error for an exception that left ``call``; raise it ``from`` the cause."""
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        return EnvError(f"{where}: {call} needs the module '{cause.name}', which is not installed")
    said = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    frames = traceback.extract_tb(cause.__traceback__)[1:][-FRAMES:]
    trace = ("\n" + "".join(traceback.format_list(frames)).rstrip("\n")) if frames else ""
    return EnvError(f"{where}: {call} raised {said}{trace}")
