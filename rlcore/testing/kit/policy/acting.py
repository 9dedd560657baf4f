"""Rules about acting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from rlcore.acting import to_env
from rlcore.acting.masks import is_mask
from rlcore.batch import ACTION_LOGP
from rlcore.columns import Array, Columns, take
from rlcore.policy_graph import ActOutput
from rlcore.testing.environments.masks import flags, forbidden
from rlcore.testing.environments.steps import elements
from rlcore.testing.kit.policy.lab import GraphLab, generator, rows_of
from rlcore.testing.kit.report import Fault, Untested
from rlcore.testing.kit.trees import array_leaves, copied, difference, shared_with

_TOLERANCE = 1e-5


def actions_have_their_shapes_and_types(lab: GraphLab) -> Iterator[Fault]:
    """actions are one row per observation and leaf of the action space; integers from 0 where it is discrete."""
    faults: dict[str, Fault] = {}
    for n in (1, 4):
        for explore in (True, False):
            actions = _leaves(lab.act(lab.template, n, explore=explore).actions)
            spaces = lab.action_leaves()
            if actions.keys() != spaces.keys():
                what = f"actions have the leaves {sorted(actions)}, the action space {sorted(spaces)}"
                yield Fault(what, "give {dotted leaf: array} for a nested space, one array for a plain one")
                return
            for leaf, space in spaces.items():
                found = _wrong_actions(actions[leaf], space, n)
                if found:
                    name = f"actions.{leaf}" if leaf else "actions"
                    how = "exploring" if explore else "without exploring"
                    fix = "give the network's actions: int64 from 0 where discrete, floats in a Box, one row each"
                    faults.setdefault(name, Fault(f"{name} {found} ({n} observations, {how})", fix))
    yield from faults.values()


def _wrong_actions(array: Any, space: gymnasium.Space[Any], n: int) -> str | None:
    if not isinstance(array, np.ndarray):
        return f"is a {type(array).__name__}, expected an array"
    if array.shape != (n, *(space.shape or ())):
        return f"has shape {array.shape}, expected {(n, *(space.shape or ()))}"
    if isinstance(space, gymnasium.spaces.Box):
        if array.dtype.kind != "f" and np.issubdtype(space.dtype, np.floating):
            return f"is {array.dtype}, expected floats"
        return None if np.isfinite(array).all() else "is not finite"
    if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete):
        sizes = space.n if isinstance(space, gymnasium.spaces.Discrete) else space.nvec
        if array.dtype != np.int64:
            return f"is {array.dtype}, expected int64"
        return None if ((array >= 0) & (array < sizes)).all() else "has numbers outside of 0 to n - 1"
    return None if np.isin(array, (0, 1)).all() else "has numbers other than 0 and 1"


def actions_fit_the_environment(lab: GraphLab) -> Iterator[Fault]:
    """What to_env makes of the actions lies in the action space."""
    for explore in (True, False):
        actions = _leaves(to_env(lab.act(lab.template, 32, explore=explore).actions, lab.action_space))
        for leaf, space in lab.action_leaves().items():
            bad = [action for action in elements(actions[leaf]) if not space.contains(action)]
            if bad:
                yield Fault(
                    f"the environment would get {bad[0]}, which is not in {space}",
                    "give actions that rlcore.acting.to_env can bring into the space by shifting and clipping",
                )
                return


def actions_obey_the_mask(lab: GraphLab) -> Iterator[Fault]:
    """Where observations have an action_mask, no action is taken that it forbids, exploring or not."""
    if not any(map(is_mask, lab.observations)):
        raise Untested("observations have no action_mask")
    n, spaces, obs = 32, lab.action_leaves(), _leaves(lab.obs(32))
    for explore in (True, False):
        out = lab.template.act(lab.obs(n), lab.template.initial_state(n), explore=explore, rng=generator(3))
        actions = _leaves(to_env(out.actions, lab.action_space))
        for row in range(n):
            allowed = flags({leaf: array[row] for leaf, array in obs.items()}, spaces)
            for leaf, space in spaces.items():
                if forbidden(actions[leaf][row], space, allowed[leaf]) is not None:
                    how = "exploring" if explore else "without exploring"
                    yield Fault(
                        f"{how} it took action {actions[leaf][row]} in row {row}, which the mask forbids",
                        "give forbidden options no probability (rlcore.acting.masked), or refuse such spaces",
                    )
                    return


def extras_are_columns(lab: GraphLab) -> Iterator[Fault]:
    """extras are arrays of one row per observation, finite; action_logp is float32 [n]."""
    for name, column in lab.act(lab.template, 4).extras.items():
        array: Any = column
        if not isinstance(array, np.ndarray) or array.shape[:1] != (4,) or array.dtype.kind not in "fiub":
            said = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
            yield Fault(f"extras['{name}'] is {said} for 4 observations", "give an array of numbers with one row each")
        elif array.dtype.kind == "f" and not np.isfinite(array).all():
            yield Fault(f"extras['{name}'] is not finite", "give finite numbers")
        elif name == ACTION_LOGP and (array.dtype != np.float32 or array.shape != (4,)):
            yield Fault(
                f"extras['{name}'] is {array.dtype} {array.shape}, expected float32 (4,)",
                "give one log-probability per row, summed over all parts of the action",
            )


def states_go_in_and_come_out(lab: GraphLab) -> Iterator[Fault]:
    """act() returns a recurrent state of the form of initial_state(n), whose rows are all alike; or both give ()."""
    graph = lab.template
    initial, fewer = graph.initial_state(4), graph.initial_state(2)
    after = graph.act(lab.obs(4), initial, rows=rows_of(4, 0), rng=generator(1)).state
    form, came = _form(initial), _form(after)
    if not isinstance(initial, tuple) or not isinstance(after, tuple) or form != came:
        yield Fault(
            f"act() took a state of {form} and gave one of {came}",
            "return the next state as a tuple of arrays of the same shapes and types",
        )
        return
    if any(len(part) != 4 for part in initial) or any(len(part) != 2 for part in fewer):
        yield Fault(f"initial_state(4) is {form}", "give arrays with one row for each of the n episodes")
        return
    if any((part != part[:1]).any() for part in initial):
        yield Fault("the rows of initial_state(4) differ", "let every episode begin with the same state")
    ours = {str(i): part for i, part in enumerate(graph.initial_state(4))}
    if shared_with(ours, {str(i): part for i, part in enumerate(graph.initial_state(4))}):
        yield Fault("two calls of initial_state() share memory", "make new arrays in each call")


def _form(state: Any) -> str:
    parts = [f"{part.dtype} {part.shape}" if isinstance(part, np.ndarray) else str(type(part)) for part in state]
    return f"({', '.join(parts)})"


def acting_follows_the_generator(lab: GraphLab) -> Iterator[Fault]:
    """The same observations, state and generator give the same actions, in two graphs of one spec."""
    found = act_difference(lab.act(lab.build(), 32), lab.act(lab.build(), 32))
    if found:
        yield Fault(
            f"acting twice with equal generators differs: {found}",
            "draw from the generator that act() is given, and from nothing else",
        )


def acting_without_exploring_is_deterministic(lab: GraphLab) -> Iterator[Fault]:
    """With explore=False the generator has no influence."""
    one, two = (lab.act(lab.template, 32, explore=False, seed=seed) for seed in (1, 2))
    found = difference(one.actions, two.actions)
    if found:
        yield Fault(
            f"without exploring the actions depend on the generator: {found}",
            "give the likeliest action, or that of the greatest value, where explore is false",
        )


def acting_changes_nothing(lab: GraphLab) -> Iterator[Fault]:
    """act() changes neither its arguments nor the graph, and does the same a second time."""
    graph = lab.build()
    before = copied(graph.get_state())
    obs, state, rows = lab.obs(8), lab.state(graph, 8), rows_of(8)
    given = {"obs": obs, "state": list(state), "rows": rows._asdict()}
    kept = copied(given)
    first = graph.act(obs, state, rows=rows, rng=generator(1))
    first = ActOutput(*copied(tuple(first)))
    found = difference(array_leaves(given), array_leaves(kept))
    if found:
        yield Fault(f"act() changed its argument {found}", "compute in arrays of its own")
    found = difference(graph.get_state(), before)
    if found:
        yield Fault(f"act() changed the graph: {found}", "keep nothing of a call; recurrent state goes in and out")
    kept_obs, kept_state = kept["obs"], tuple(kept["state"])
    found = act_difference(graph.act(kept_obs, kept_state, rows=rows, rng=generator(1)), first)
    if found:
        yield Fault(f"the same call of act() gave something else: {found}", "keep nothing of a call")


def rows_are_acted_for_apart(lab: GraphLab) -> Iterator[Fault]:
    """Each row's action depends on its own observation and state only; rows= may be left out."""
    graph = lab.template
    n = 6
    obs, state = lab.obs(n), lab.state(graph, n)
    whole = graph.act(obs, state, explore=False, rng=generator(1))
    for i in range(n):
        own = graph.act(
            take(obs, slice(i, i + 1)), tuple(part[i : i + 1] for part in state), explore=False, rng=generator(1)
        )
        expected = ActOutput(
            take(whole.actions, slice(i, i + 1)),
            tuple(part[i : i + 1] for part in whole.state),
            {name: column[i : i + 1] for name, column in whole.extras.items()},
        )
        found = act_difference(own, expected, _TOLERANCE)
        if found:
            yield Fault(
                f"row {i} alone is acted for in another way than among {n}: {found}",
                "let no row have an influence on another: no statistics over the rows of a call",
            )
            return


def log_probs_repeat(lab: GraphLab) -> Iterator[Fault]:
    """Before the first update the policy gives what it sampled the probability that acting noted, to 1e-5."""
    batch = lab.batch()
    if ACTION_LOGP not in batch:
        raise Untested("acting notes no action_logp")
    now = lab.build().log_probs(batch)
    if now is None:
        raise Untested("log_probs() gives None; write it, so that this can be tested")
    ratios = np.exp(now.astype(np.float64) - batch[ACTION_LOGP])
    worst = int(np.abs(ratios - 1.0).argmax())
    if now.shape != (len(batch),):
        yield Fault(f"log_probs() gave {now.shape} for {len(batch)} rows", "give one number for each row")
    elif not abs(ratios[worst] - 1.0) <= _TOLERANCE:
        yield Fault(
            f"the ratio of row {worst} is {ratios[worst]:.6g} before the first update",
            "note the log-probability of the action as it is stored, not of the clipped or shifted one",
        )


def act_difference(have: ActOutput, expected: ActOutput, tolerance: float = 0.0) -> str | None:
    """How one output of ``act`` differs from another."""
    return difference(_tree(have), _tree(expected), tolerance)


def _tree(output: ActOutput) -> dict[str, Any]:
    return {"actions": output.actions, "state": list(output.state), "extras": dict(output.extras)}


def _leaves(actions: Columns) -> dict[str, Array]:
    return actions if isinstance(actions, dict) else {"": actions}
