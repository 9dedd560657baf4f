"""PettingZoo's parallel environments, in which all agents that are there act at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlcore.columns import Array
from rlcore.errors import BadValueError
from rlcore_multiagent.pettingzoo_env import frame, own_agents, own_copy, own_spaces
from rlcore_multiagent.stage import Ending, Stage, Turn


class ParallelStage(Stage):
    """One ``pettingzoo.ParallelEnv``.

    Whoever has an observation and did not end is asked to act; an agent without one sits the step out, and what it
    earns is kept for it. Agents may join and leave at any step.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._env = make()
        self.agents = own_agents(self._env)
        self.spaces = own_spaces(self._env, self.agents)
        self._numbers = {agent: number for number, agent in enumerate(self.agents)}
        self._asked: list[str] = []

    def open(self, seed: int) -> Turn:
        observations, _ = self._env.reset(seed=seed)
        return Turn({}, {}, self._ask(observations, ()), False)

    def step(self, actions: Mapping[int, Any]) -> Turn:
        names = {self.agents[number]: action for number, action in actions.items()}
        observations, rewards, terminated, truncated, _ = self._env.step(names)
        ended = {}
        for agent in observations.keys() | terminated.keys() | truncated.keys():
            if terminated.get(agent, False) or truncated.get(agent, False):
                ended[self._number(agent)] = self._ending(agent, observations, bool(terminated.get(agent, False)))
        asked = self._ask(observations, ended)
        over = not asked and not self._env.agents
        return Turn({self._number(agent): reward for agent, reward in rewards.items()}, ended, asked, over)

    def _ask(self, observations: Mapping[str, Any], ended: Any) -> dict[int, Any]:
        present = set(self._env.agents)
        numbers = {self._number(agent): agent for agent in observations if agent in present}
        return {number: own_copy(observations[numbers[number]]) for number in sorted(numbers) if number not in ended}

    def _number(self, agent: str) -> int:
        try:
            return self._numbers[agent]
        except KeyError:
            raise BadValueError(f"agent '{agent}' is none of possible_agents: {', '.join(self.agents)}") from None

    @staticmethod
    def _ending(agent: str, observations: Mapping[str, Any], terminated: bool) -> Ending:
        if agent not in observations:
            said = "ended without a last observation; step() has to give it with the flags"
            raise BadValueError(f"agent '{agent}' {said}")
        return Ending(own_copy(observations[agent]), terminated)

    def render(self) -> Array | None:
        return frame(self._env)

    def close(self) -> None:
        self._env.close()


class TurnStage(Stage):
    """One ``pettingzoo.AECEnv``, whose agents act one after the other.

    An agent's reward is what has come together since it acted last. Dead agents are stepped with None, as the library
    asks for it, and have no rows after the one that they ended with.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._env = make()
        self.agents = own_agents(self._env)
        self.spaces = own_spaces(self._env, self.agents)
        self._numbers = {agent: number for number, agent in enumerate(self.agents)}

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
            number = self._numbers[self._env.agent_selection]
            obs, reward, terminated, truncated, _ = self._env.last()
            rewards[number] = rewards.get(number, 0.0) + float(reward)
            if not (terminated or truncated):
                return Turn(rewards, ended, {number: own_copy(obs)}, False)
            ended[number] = Ending(own_copy(obs), bool(terminated))
            self._env.step(None)
        return Turn(rewards, ended, {}, True)

    def render(self) -> Array | None:
        return frame(self._env)

    def close(self) -> None:
        self._env.close()

