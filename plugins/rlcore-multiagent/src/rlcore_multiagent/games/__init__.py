"""Small games of our own for several agents, computed for all copies at once: to try things on, not to be good at."""

from __future__ import annotations

from rlcore_multiagent.games.relay import Relay
from rlcore_multiagent.games.simultaneous import Moved, SimultaneousGame
from rlcore_multiagent.games.territory import Territory

__all__ = ["Moved", "Relay", "SimultaneousGame", "Territory"]
