"""Who came in the place of somebody lost: until they have what the others have, and until they are known to work."""

from __future__ import annotations

from collections.abc import Iterable

from rlcore.crew import Crew
from rlcore.runtime.base import Handle, Runtime


class Newcomers:
    """Those of a crew whom somebody else than the driver calls.

    Calls of others can overtake the driver's: nobody is to call a newcomer before it has done what it was sent first.
    And as the driver does not see them at work, it says here that a generation went well.
    """

    def __init__(self, runtime: Runtime, crew: Crew) -> None:
        self.crew = crew
        self._runtime = runtime
        #: By place, since when somebody is there who has not yet what the others have.
        self._since: dict[int, float] = {}
        #: Places that were filled anew and are not known to be in order.
        self._unproven: set[int] = set()

    def note(self, place: int) -> None:
        """Somebody has come, and is sent what the others have."""
        self._since[place] = self._runtime.now()
        self._unproven.add(place)

    def is_new(self, place: int) -> bool:
        """Whether whoever is there has not yet what the others have, as far as is known."""
        return place in self._since

    def others(self, places: Iterable[int]) -> dict[int, Handle]:
        """Whom anyone may call, by place."""
        members = [self.crew.members[place] for place in places]
        return {one.index: one.handle for one in members if not one.vacant and one.index not in self._since}

    def look(self) -> list[int]:
        """The places of those that anyone may call from now on. Who should be so far and is not is replaced."""
        if not self._unproven:
            return []
        self.crew.fill()
        found = []
        for place, since in list(self._since.items()):
            member = self.crew.members[place]
            if member.vacant:
                continue
            if not self._runtime.wait(member.told, len(member.told), 0.0)[1]:
                del self._since[place]
                found.append(place)
            elif self.crew.is_late(member, since):
                self.crew.replace_late(member)
        return found

    def note_work(self) -> None:
        """Those that anyone may call have worked, and nobody has lost them."""
        for place in self._unproven - self._since.keys():
            member = self.crew.members[place]
            if not member.vacant:
                self.crew.note_sample(member)
                if not member.failures:
                    self._unproven.discard(place)
