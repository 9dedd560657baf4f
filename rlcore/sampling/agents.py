"""Agents by number: which policy acts for an agent id, and one track for each agent of each slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.errors import UserError


class AgentTable:
    """Numbers agent ids (integers or strings) as they appear, and remembers the policy that each is bound to."""

    def __init__(self, policy_ids: tuple[str, ...], policy_of: Callable[[Any], str]) -> None:
        self._policy_ids = policy_ids
        self._policy_of = policy_of
        self._sorted: NDArray[Any] | None = None
        self._codes = np.zeros(0, np.int64)
        self.ids: list[Any] = []
        #: The ids that were encoded last, as bytes, and their codes: most polls hand over the same agents.
        self._last: tuple[np.dtype[Any], bytes] | None = None
        self._last_codes = np.zeros(0, np.int64)
        #: Index into ``policy_ids`` by agent code.
        self.policy = np.zeros(0, np.int64)

    def encode(self, agent_id: NDArray[Any]) -> NDArray[np.int64]:
        """The code of each id; new ids get the next codes."""
        asked = agent_id.dtype, agent_id.tobytes()
        if asked != self._last:
            self._last_codes, self._last = self._encode(agent_id), asked
        return self._last_codes

    def _encode(self, agent_id: NDArray[Any]) -> NDArray[np.int64]:
        known = self._sorted
        if known is None or not (known.dtype.kind == agent_id.dtype.kind and self._all_known(known, agent_id)):
            self._learn(agent_id)
            known = self._sorted
            assert known is not None
        return np.asarray(self._codes[np.searchsorted(known, agent_id)])

    @staticmethod
    def _all_known(known: NDArray[Any], agent_id: NDArray[Any]) -> bool:
        position = np.minimum(np.searchsorted(known, agent_id), len(known) - 1)
        return bool((known[position] == agent_id).all())

    def _learn(self, agent_id: NDArray[Any]) -> None:
        for value in np.unique(agent_id).tolist():
            if value not in self.ids:
                self.ids.append(value)
                self.policy = np.append(self.policy, self._index(value))
        ids = np.array(self.ids)
        order = np.argsort(ids, kind="stable")
        self._sorted, self._codes = ids[order], order.astype(np.int64)

    def _index(self, agent_id: Any) -> int:
        policy_id = self._policy_of(agent_id)
        if policy_id not in self._policy_ids:
            raise UserError(
                f"policy_of maps agent {agent_id!r} to policy '{policy_id}'; the policies are: "
                + ", ".join(self._policy_ids)
            )
        return self._policy_ids.index(policy_id)

    def get_state(self) -> dict[str, Any]:
        """The ids in the order of their codes."""
        return {"ids": list(self.ids)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Gives the ids the codes they had."""
        for value in state["ids"]:
            self._learn(np.array([value]))
