"""Rules about what an environment gives planners: a model that says what the environment shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting.masks import has_mask, mask_for
from rlcore.columns import Columns, length, take
from rlcore.model import BatchedModel
from rlcore.testing.kit.env.lab import EnvLab
from rlcore.testing.kit.env.play import leaves_of
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.trees import copied, difference

#: How far apart what is rebuilt from an observation may be from it: states of simulators have more digits.
CLOSE = 1e-4
#: Polls whose observations are looked at.
POLLS = 60


def its_model_is_a_model(lab: EnvLab) -> Iterator[Fault]:
    """model() gives None or a BatchedModel."""
    model = _model(lab)
    if model is not None and not isinstance(model, BatchedModel):
        yield Fault(
            f"model() gave a {type(model).__name__}", "derive it from rlcore.model.BatchedModel, or return None"
        )


def its_model_is_where_the_environment_is(lab: EnvLab) -> Iterator[Fault]:
    """The states of observations show the same observations again, are not over, and have the same legal actions."""
    for model, obs, group in _seen(lab):
        states = model.from_obs(obs)
        if np.asarray(model.terminal(states)).any():
            yield Fault("terminal() says that games are over that go on", "see whether from_obs() reads all it needs")
            return
        apart = _apart(obs, model.observe(states))
        if apart:
            yield Fault(f"observe(from_obs(obs)) is not obs: {apart}", "have from_obs() rebuild the state it is shown")
            return
        spaces = lab.groups[group]
        legal = model.legal(states)
        mask = mask_for(*spaces) if has_mask(spaces[0]) else None
        if legal is not None and mask is not None and not np.array_equal(mask.read(obs), legal):
            yield Fault("legal() differs from the action mask that is shown", "compute both from the same rules")
            return


def its_model_is_pure(lab: EnvLab) -> Iterator[Fault]:
    """Its functions repeat, change no argument and give arrays of the shapes that a planner expects."""
    for model, obs, _ in _seen(lab):
        states = model.from_obs(obs)
        if model.legal(states) is None:
            raise Untested("its actions are continuous")
        before = copied(states)
        actions = model.draw_moves(states, np.random.default_rng(lab.seed))
        after, rewards = model.step(states, actions, np.random.default_rng(lab.seed))
        if difference(states, before):
            yield Fault("step() changes the states that it is given", "copy what is written to")
            return
        again = model.step(states, actions, np.random.default_rng(lab.seed))
        if difference({"states": again[0], "rewards": again[1]}, {"states": after, "rewards": rewards}):
            yield Fault("step() does not repeat with the same generator", "draw from the generator that is passed in")
            return
        n = length(obs)
        if np.shape(rewards) != (n, model.players) or np.asarray(rewards).dtype != np.float32:
            yield Fault(
                f"step() gave rewards of shape {np.shape(rewards)} for {n} states and {model.players} players",
                "give float32 [n, players]",
            )
            return
        wrong = _wrong_movers(model, after)
        if wrong is not None:
            yield Fault(f"to_play() gave {wrong}", f"give int64 [n] from 0 to {model.players - 1}")
            return


def _model(lab: EnvLab) -> Any:
    with lab.open() as env:
        return env.model()


def _seen(lab: EnvLab) -> Iterator[tuple[BatchedModel, Columns, str]]:
    """The model with what agents saw that were asked to act, some polls of the recording."""
    model = _model(lab)
    if not isinstance(model, BatchedModel):
        raise Untested("it has no model")
    for polled in lab.recording.polls[:POLLS]:
        for group, step in polled.items():
            asked = np.flatnonzero(np.asarray(step.needs_action, np.bool_))
            if len(asked):
                yield model, take(step.obs, asked), group


def _apart(obs: Columns, again: Columns) -> str:
    """Where two observations differ; empty where they do not."""
    one, other = leaves_of(obs), leaves_of(again)
    if one.keys() != other.keys():
        return f"it has the parts {', '.join(sorted(other))}, not {', '.join(sorted(one))}"
    for leaf, array in one.items():
        name = f"part '{leaf}'" if leaf else "it"
        if np.shape(array) != np.shape(other[leaf]):
            return f"{name} has shape {np.shape(other[leaf])}, not {np.shape(array)}"
        far = np.abs(np.asarray(array, np.float64) - np.asarray(other[leaf], np.float64)).max(initial=0.0)
        if far > CLOSE:
            return f"{name} is off by {far:.3g}"
    return ""


def _wrong_movers(model: BatchedModel, states: Columns) -> NDArray[Any] | None:
    going_on = np.flatnonzero(~np.asarray(model.terminal(states)))
    movers = np.asarray(model.to_play(take(states, going_on)))
    fine = movers.shape == (len(going_on),) and ((movers >= 0) & (movers < model.players)).all()
    return None if fine else movers
