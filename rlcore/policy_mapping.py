"""Which policy acts for which agent, and in which spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlcore import registry
from rlcore.env import BatchedEnv, Spaces
from rlcore.errors import ConfigError, UserError
from rlcore.lookup_errors import did_you_mean

#: From an agent's id to its policy's.
PolicyOf = Callable[[Any], str]


def load_policy_of(policy_of: Any) -> PolicyOf | Mapping[Any, str] | None:
    """The function or mapping that a config's ``policy_of`` stands for; ``ConfigError`` for a path to neither."""
    if not isinstance(policy_of, str):
        return policy_of  # type: ignore[no-any-return]  # the config has checked it
    found = registry.import_object(policy_of)
    if not callable(found) and not isinstance(found, Mapping):
        raise ConfigError(f"policy_of: '{policy_of}' is neither a function nor a mapping")
    return found  # type: ignore[no-any-return]


def policy_function(policy_of: PolicyOf | Mapping[Any, str] | None, policy_ids: tuple[str, ...]) -> PolicyOf:
    """``policy_of`` as a function; where there is none, the only policy, or the one that bears the agent's name.

    The function raises ``UserError`` for an agent without a policy of ``policy_ids``.
    """
    known_policies = ", ".join(policy_ids)
    if callable(policy_of):
        function = policy_of

        def ask(agent_id: Any) -> str:
            try:
                name = function(agent_id)
            except Exception as error:
                raise UserError(
                    f"policy_of: {registry.target_of(function)} fails for agent {agent_id!r}: "
                    f"{type(error).__name__}: {' '.join(str(error).split())}"
                ) from error
            if name not in policy_ids:
                raise UserError(f"policy_of gave {name!r} for agent {agent_id!r}; policies are: {known_policies}")
            return name

        return ask
    if policy_of is not None:
        # A config that was saved has the keys of a mapping as strings.
        table = {str(agent): policy_id for agent, policy_id in policy_of.items()}

        def look_up(agent_id: Any) -> str:
            if str(agent_id) not in table:
                known = ", ".join(table)
                raise UserError(f"policy_of names no policy for agent {agent_id!r}, only for: {known}")
            return str(table[str(agent_id)])

        return look_up
    if len(policy_ids) == 1:
        return lambda agent_id: policy_ids[0]

    def namesake(agent_id: Any) -> str:
        if str(agent_id) not in policy_ids:
            raise UserError(
                f"policy_of is missing: no policy bears the name of agent {agent_id!r}, they are called "
                f"{known_policies}; policy_of: {{agent: policy}} says who acts for whom"
            )
        return str(agent_id)

    return namesake


def check_agents(env: BatchedEnv, policy_of: PolicyOf | Mapping[Any, str] | None) -> None:
    """``ConfigError`` where a mapping names an agent that the environment, which knows its agents, does not have."""
    if not env.agents or not isinstance(policy_of, Mapping):
        return
    agents = [str(agent) for own in env.agents.values() for agent in own]
    for agent in policy_of:
        if str(agent) not in agents:
            hint, known = did_you_mean(str(agent), agents), ", ".join(agents)
            raise ConfigError(f"policy_of: '{env.name}' has no agent {agent!r}{hint} (its agents: {known})")


def spaces_by_policy(env: BatchedEnv, policy_of: PolicyOf, policy_ids: tuple[str, ...]) -> dict[str, Spaces]:
    """The spaces each policy acts in: those of its agents' groups, else the only ones.

    Where the environment does not say which agents are in a group, the group's name stands for them: a policy that
    bears it, or that ``policy_of`` gives for it. ``UserError`` where agents of one policy differ in their spaces, and
    where the environment knows its agents and one has no policy.
    """
    result: dict[str, Spaces] = {}
    first: dict[str, Any] = {}
    for agent, spaces in _agents(env):
        policy_id = agent if agent in policy_ids and not env.agents else policy_of(agent)
        if result.setdefault(policy_id, spaces) != spaces:
            raise UserError(
                f"policy '{policy_id}' acts for agents of '{env.name}' with different spaces, such as "
                f"{first[policy_id]!r} and {agent!r}; give each kind of agent a policy of its own"
            )
        first.setdefault(policy_id, agent)
    missing = [policy_id for policy_id in policy_ids if policy_id not in result]
    if len(env.groups) == 1:
        (only,) = env.groups.values()
        return result | dict.fromkeys(missing, only)
    if missing:
        names = ", ".join(str(agent) for agent, _ in _agents(env))
        raise UserError(f"no agent of '{env.name}' ({names}) is acted for by: {', '.join(missing)}")
    return result


def _agents(env: BatchedEnv) -> list[tuple[Any, Spaces]]:
    """The agents that are known, or the groups' names in their place, with their spaces."""
    if env.agents:
        return [(agent, env.groups[group]) for group, agents in env.agents.items() for agent in agents]
    return list(env.groups.items()) if len(env.groups) > 1 else []
