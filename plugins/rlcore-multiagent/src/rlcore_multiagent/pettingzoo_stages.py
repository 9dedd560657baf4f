"""Environments of PettingZoo as stages: parallel ones, in which all agents act at once, and those in turns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rlcore.columns import Array
from rlcore.errors import BadValueError
from rlcore_multiagent.masks import InfoMasks, Infos, may_be_masked
from rlcore_multiagent.pettingzoo_env import frame, own_agents, own_copy, own_spaces
from rlcore_multiagent.stage import Ending, Stage, Turn
from rlcore_multiagent.values import boolean


class ParallelStage(Stage):
    """One ``pettingzoo.ParallelEnv``.

    Whoever has an observation and did not end is asked to act; an agent without one sits the step out, and what it
    earns is kept for it. Agents may join and leave at any step.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._env = make()
        self.agents = own_agents(self._env)
        spaces = own_spaces(self._env, self.agents)
        infos = self._env.reset(seed=0)[1] if may_be_masked(spaces) else {}
        self._masks = InfoMasks(self.agents, spaces, infos)
        self.spaces = self._masks.spaces
        self._numbers = {agent: number for number, agent in enumerate(self.agents)}

    def open(self, seed: int) -> Turn:
        observations, infos = self._env.reset(seed=seed)
        return Turn({}, {}, self._ask(observations, infos, ()), False)

    def step(self, actions: Mapping[int, Any]) -> Turn:
        names = {self.agents[number]: action for number, action in actions.items()}
        observations, rewards, terminated, truncated, infos = self._env.step(names)
        ended = {}
        for agent in observations.keys() | terminated.keys() | truncated.keys():
            for_good = _flag(agent, terminated.get(agent, False), "terminated")
            if _flag(agent, truncated.get(agent, False), "truncated") or for_good:
                obs = self._seen(agent, self._last(agent, observations), infos)
                ended[self._number(agent)] = Ending(obs, for_good)
        asked = self._ask(observations, infos, ended)
        over = not asked and not self._env.agents
        return Turn({self._number(agent): reward for agent, reward in rewards.items()}, ended, asked, over)

    def _ask(self, observations: Mapping[str, Any], infos: Infos, ended: Collection[int]) -> dict[int, Any]:
        present = set(self._env.agents)
        numbers = {self._number(agent): agent for agent in observations if agent in present}
        return {
            number: self._seen(numbers[number], observations[numbers[number]], infos)
            for number in sorted(numbers)
            if number not in ended
        }

    def _seen(self, agent: str, obs: Any, infos: Infos) -> Any:
        return self._masks.seen(agent, own_copy(obs), infos.get(agent, {}))

    def _number(self, agent: str) -> int:
        try:
            return self._numbers[agent]
        except KeyError:
            raise BadValueError(f"agent '{agent}' is none of possible_agents: {', '.join(self.agents)}") from None

    @staticmethod
    def _last(agent: str, observations: Mapping[str, Any]) -> Any:
        if agent not in observations:
            said = "ended without a last observation; step() has to give it with the flags"
            raise BadValueError(f"agent '{agent}' {said}")
        return observations[agent]

    def render(self) -> Array | None:
        return frame(self._env)

    def close(self) -> None:
        self._env.close()


def _flag(agent: str, flag: Any, name: str) -> bool:
    """The flag called ``name``. ``BadValueError`` where it is no boolean, nor an array of one."""
    value = boolean(flag)
    if value is None:
        raise BadValueError(f"agent '{agent}': {name} is {flag!r}, which is no boolean")
    return value


class TurnStage(Stage):
    """One ``pettingzoo.AECEnv``, whose agents act one after the other.

    An agent's reward is what has come together since it acted last. Dead agents are stepped with None, as the library
    asks for it, and have no rows after the one that they ended with.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._env = make()
        self.agents = own_agents(self._env)
        spaces = own_spaces(self._env, self.agents)
        self._masks = InfoMasks(self.agents, spaces, self._first_infos() if may_be_masked(spaces) else {})
        self.spaces = self._masks.spaces
        self._numbers = {agent: number for number, agent in enumerate(self.agents)}

    def _first_infos(self) -> Infos:
        self._env.reset(seed=0)
        infos: Infos = self._env.infos
        return infos

    def open(self, seed: int) -> Turn:
        self._env.reset(seed=seed)
        turn = self._go_on()
        return turn._replace(rewards={})

    def step(self, actions: Mapping[int, Any]) -> Turn:
        (action,) = actions.values()
        self._env.step(action)
        return self._go_on()

    def _go_on(self) -> Turn:
        rewards: dict[int, float] = {}
        ended: dict[int, Ending] = {}
        while self._env.agents:
            agent = self._env.agent_selection
            number = self._numbers[agent]
            obs, reward, terminated, truncated, info = self._env.last()
            seen = self._masks.seen(agent, own_copy(obs), info)
            rewards[number] = rewards.get(number, 0.0) + float(reward)
            for_good = _flag(agent, terminated, "terminated")
            if not (_flag(agent, truncated, "truncated") or for_good):
                return Turn(rewards, ended, {number: seen}, False)
            ended[number] = Ending(seen, for_good)
            self._env.step(None)
        return Turn(rewards, ended, {}, True)

    def render(self) -> Array | None:
        return frame(self._env)

    def close(self) -> None:
        self._env.close()

