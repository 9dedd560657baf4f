"""Every exception that rlcore raises on purpose.

A ``UserError`` is something the user can mend: the command line prints its message, a line or a few, and exits with
code 2. Anything else that escapes is a fault of the program and keeps its trace.
"""

from __future__ import annotations


class RlcoreError(Exception):
    """Root of rlcore's own exceptions."""


class UserError(RlcoreError):
    """Input that the user can correct; the message says how."""


class ConfigError(UserError):
    """A config that is no YAML, has an unknown key, or a value of the wrong type."""


class PluginError(UserError):
    """A part that was asked for by name cannot be had."""


class UnknownPluginError(PluginError):
    """No installed distribution provides the name."""


class BrokenPluginError(PluginError):
    """The name is provided, but importing it fails; the cause is chained."""


class AmbiguousPluginError(PluginError):
    """Two distributions provide the name, and the request does not say whose is meant."""


class InvalidPluginError(PluginError):
    """What a name or an import path leads to is not of the kind that was asked for."""


class SpaceError(UserError):
    """A space that a policy graph, an environment adapter or a filter cannot handle."""


class OptimizerError(UserError):
    """An optimizer was given a policy graph or settings that it cannot work with."""


class EnvError(UserError):
    """An environment raised or broke its contract; names the environment, its index and the step."""


class BadValueError(EnvError):
    """What an environment handed over is ruled out by its contract, such as a reward that is NaN.

    It did not fail, and would do so again: that is for its author to mend, and no reason to try another worker.
    """


class NoLegalActionError(BadValueError):
    """An action mask of an environment allows nothing."""


class CheckpointError(UserError):
    """A checkpoint that is incomplete, too new, or asks for code to be run."""


class RunFolderError(UserError):
    """A run folder that exists already, or that is none."""


class BatchError(RlcoreError):
    """A batch whose columns do not fit together."""


class NonFiniteError(RlcoreError):
    """Losses or gradients stayed NaN or infinite for longer than the bound."""


class GroupBroken(RlcoreError):
    """A group of processes that compute together is no more: one of them is gone, or does not come in time."""


class WorkerFailed(RlcoreError):
    """A worker of an optimizer, such as a learner or a parameter shard, raised what the user cannot mend: a fault of
    the program, or of the author of what runs in it. The exception itself is the cause."""


class WorkerLost(RlcoreError):
    """A worker died or cannot be reached; ``handle`` is the one that was called."""

    def __init__(self, handle: object, cause: str = "") -> None:
        super().__init__(f"worker {handle} was lost{': ' + cause if cause else ''}")
        self.handle = handle
        self.cause = cause

    def __reduce__(self) -> tuple[type[WorkerLost], tuple[object, str]]:
        return type(self), (self.handle, self.cause)


class MachineLost(WorkerLost):
    """A worker was lost because the machine is gone that it was on, which is no fault of its own."""


class ValueLost(MachineLost):
    """A value that was asked for, or was to be handed over, went with the machine that held it, or with the worker that
    was to give it.

    The worker that was called may be in order.
    """

    @classmethod
    def of(cls, loss: WorkerLost) -> ValueLost:
        """What is raised by a call for which a value was lost in this way."""
        return cls(loss.handle, loss.cause)
