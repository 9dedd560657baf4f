"""What a set of evaluators has been sent: which versions there are, and what somebody lacks who was not there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from rlcore.runtime.base import Handle, Ref

#: Staler than so many versions need not be told apart.
STALENESS_LIMIT = 1024


class Published:
    """Updates of weights, progress and filters, numbered; of each group of policies the last one, to be sent again."""

    def __init__(self) -> None:
        #: How often there was one.
        self.version = 0
        #: By policy, the versions with weights of it, the last ones.
        self._versions: dict[str, deque[int]] = {}
        #: The last update of each group of policies, with its version, oldest first.
        self._updates: dict[frozenset[str], tuple[int, tuple[Ref, ...]]] = {}
        #: By place, whom updates were sent to there and up to which version, where that was one by one.
        self._sent: dict[int, tuple[Handle, int]] = {}

    def next_version(self) -> int:
        """The number of an update that is being made."""
        self.version += 1
        return self.version

    def note(self, policies: Iterable[str], update: Sequence[Ref]) -> None:
        """The last version is ``update``, with weights or progress of these policies."""
        own = frozenset(policies)
        self._updates = {group: refs for group, refs in self._updates.items() if not group <= own}
        self._updates[own] = self.version, tuple(update)
        for policy_id in own:
            self._versions.setdefault(policy_id, deque(maxlen=STALENESS_LIMIT)).append(self.version)

    def lacking(self, index: int, handle: Handle) -> list[tuple[Ref, ...]]:
        """What ``handle``, in that place, has not been sent one by one; from now on it has been."""
        receiver, known = self._sent.get(index, (handle, 0))
        self._sent[index] = handle, self.version
        return [update for version, update in self._updates.values() if version > known or receiver is not handle]

    def for_newcomer(self, index: int, handle: Handle) -> list[tuple[Ref, ...]]:
        """What ``handle`` is sent, which is new in that place; from now on it has been."""
        self._sent[index] = handle, self.version
        return [update for _, update in self._updates.values()]

    def staleness(self, version: int, policy_ids: Sequence[str]) -> int:
        """How many versions of a policy have followed ``version``, of the policy with the most.

        It is not counted beyond :data:`STALENESS_LIMIT`.
        """
        versions = (self._versions.get(policy_id, ()) for policy_id in policy_ids)
        return max(sum(1 for _ in takewhile(lambda later: later > version, reversed(own))) for own in versions)

    def get_versions(self) -> dict[str, Any]:
        """By policy, the versions with weights of it, int64 [versions]."""
        return {policy_id: np.array(own, np.int64) for policy_id, own in self._versions.items()}

    def go_on(self, version: int, versions: Mapping[str, Any]) -> None:
        """Numbers go on from there; there is nothing to send again."""
        self.version = version
        self._versions = {policy_id: deque(own.tolist(), STALENESS_LIMIT) for policy_id, own in versions.items()}
        self._updates.clear()
        self._sent.clear()
