"""In what a policy graph is tried: an environment that is named, spaces, or some common ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlcore import registry
from rlcore.env import Spaces
from rlcore.envs import EnvSource
from rlcore.errors import SpaceError
from rlcore.policy_graph import PolicyGraph
from rlcore.testing.environments.drawn import Drawn
from rlcore.testing.kit.policy.lab import GraphLab
from rlcore.testing.kit.wishes import wished

#: A name, the class, or a graph that was built, which says config and spaces as well.
GraphSource = str | type[PolicyGraph] | PolicyGraph

#: The spaces in which a graph is tried where its author names none; those that it refuses are left out.
DEFAULT_SPACES: Sequence[Spaces] = (
    (Box(-2.0, 2.0, (5,), np.float32), Discrete(3, start=1)),
    (Box(-2.0, 2.0, (5,), np.float32), Box(-1.0, 1.0, (2,), np.float32)),
    (
        Dict({"place": Box(-2.0, 2.0, (5,), np.float32), "kind": Discrete(4)}),
        Tuple([Discrete(3), Box(-1.0, 1.0, (2,), np.float32)]),
    ),
    (Dict({"place": Box(-2.0, 2.0, (5,), np.float32), "action_mask": MultiBinary(4)}), Discrete(4)),
    (Discrete(6), MultiDiscrete(np.array([[2, 3], [4, 2]]))),
)


def graph_labs(
    graph: GraphSource,
    config: Mapping[str, Any] | None = None,
    *,
    env: EnvSource | None = None,
    env_settings: Mapping[str, Any] | None = None,
    spaces: Sequence[Spaces] | None = None,
    seed: int | None = None,
) -> list[GraphLab]:
    """A lab for ``env``, or one for each of ``spaces``; without either for the defaults that the graph takes.

    A graph that was built stands for its class, config and spaces. What is None is as the graph's ``conformance`` says.
    Raises ``PluginError`` for a name that leads nowhere. Where the graph takes none of the default spaces, the first
    are left for the rules to report.
    """
    if isinstance(graph, PolicyGraph):
        config = dict(graph.config) if config is None else config
        spaces = [(graph.observation_space, graph.action_space)] if spaces is None else spaces
        graph = type(graph)
    graph_class = registry.load("policy_graph", graph) if isinstance(graph, str) else graph
    given = {"config": config, "env": env, "env_settings": env_settings, "spaces": spaces, "seed": seed}
    own = wished(graph_class, given, {"seed": 1})
    if own["env"] is not None:
        return [GraphLab(graph_class, own["env"], own["config"], env_settings=own["env_settings"], seed=own["seed"])]
    labs = [
        GraphLab(
            graph_class,
            drawn(observation_space, action_space),
            own["config"],
            seed=own["seed"],
            case=f"{short(observation_space)} to {short(action_space)}",
        )
        for observation_space, action_space in own["spaces"] or DEFAULT_SPACES
    ]
    return labs if own["spaces"] else [lab for lab in labs if not _refused(lab)] or labs[:1]


def drawn(observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> Callable[..., Drawn]:
    """What makes an environment of these spaces."""
    return functools.partial(Drawn, observation_space, action_space)


def short(space: gymnasium.Space[Any]) -> str:
    """``"Box(5)"``, ``"Dict(place, kind)"``: enough to tell cases apart."""
    name = type(space).__name__
    if isinstance(space, Dict):
        return f"{name}({', '.join(space.spaces)})"
    if isinstance(space, Tuple):
        return f"{name}({', '.join(map(short, space.spaces))})"
    if isinstance(space, Discrete):
        return f"{name}({space.n})"
    return f"{name}({', '.join(map(str, space.shape or ()))})"


def _refused(lab: GraphLab) -> bool:
    try:
        lab.spec().build()
    except SpaceError:
        return True
    except Exception:  # the first rule reports it
        return False
    return False
