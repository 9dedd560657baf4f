"""What the replay actors of a run hold: what the driver knows of it, and all of it as one replay memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rlcore.crew import Crew
from rlcore.replay_memory import ReplayMemory
from rlcore.runtime.base import Handle


class Held:
    """How many transitions of each policy every replay actor holds, as far as the driver has heard."""

    def __init__(self, replay: Crew) -> None:
        self.replay = replay
        self._rows: list[Mapping[str, int]] = [{} for _ in replay.members]
        #: Who holds them.
        self._holders = [member.handle for member in replay.members]

    def note(self, place: int, handle: Handle, rows: Mapping[str, int]) -> bool:
        """A replay actor says that it holds so much by policy; whether it is there still."""
        if self.replay.members[place].handle is not handle:
            return False
        if self._holders[place] is handle:
            self._rows[place] = rows
        return True

    def take_lost(self) -> list[tuple[int, int]]:
        """The places that others have now, or nobody, and how many transitions went with those who had them."""
        lost = []
        for place, member in enumerate(self.replay.members):
            if self._holders[place] is not member.handle:
                lost.append((place, sum(self._rows[place].values())))
                self._holders[place], self._rows[place] = member.handle, {}
        return lost

    def rows(self) -> int:
        """How many there are in all."""
        return sum(sum(rows.values()) for rows in self._rows)

    def shares(self, policy_id: str, places: Collection[int]) -> dict[int, int]:
        """How many of a policy there are in each of some places that have any."""
        return {place: rows for place in sorted(places) if (rows := self._rows[place].get(policy_id, 0))}

    def policies(self, places: Collection[int] | None = None) -> set[str]:
        """Of which there are any, in some places or in all."""
        chosen = range(len(self._rows)) if places is None else places
        return {policy_id for place in chosen for policy_id, rows in self._rows[place].items() if rows}

    def set_state(self, place: int, state: Any) -> None:
        """Has a replay actor go on from its ``get_state``'s tree."""
        rows = self.replay.ask_one(place, "set_state", state)
        self._holders[place], self._rows[place] = self.replay.members[place].handle, rows or {}


class ApexMemory(ReplayMemory):
    """What all replay actors hold."""

    def __init__(self, held: Held, on_lost: Callable[[], None]) -> None:
        self._held = held
        self._on_lost = on_lost

    def mark(self) -> None:
        """Nothing: what is stored meanwhile belongs to a run that goes on meanwhile."""

    def get_marked(self) -> dict[str, Any]:
        """A tree of the memory as it is now."""
        return {str(i): own for i, own in self._held.replay.ask("get_state").items()}

    def set_state(self, state: dict[str, Any]) -> None:
        """With another number of replay actors those without a state stay as they are, and what is left over is
        dropped."""
        for i in range(self._held.replay.size):
            if str(i) in state:
                self._held.set_state(i, state[str(i)])

    def lost(self) -> None:
        self._on_lost()
