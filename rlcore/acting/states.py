"""Recurrent states on their way into a policy."""

from __future__ import annotations

from rlcore.errors import UserError
from rlcore.policy_graph import State


def check_state(state: State, parts: int, n: int) -> None:
    """Raises ``UserError`` where a recurrent state is not one of ``parts`` arrays for ``n`` rows."""
    if len(state) == parts and all(len(part) == n for part in state):
        return
    given = ", ".join(str(list(part.shape)) for part in state) or "nothing"
    wanted = f"a recurrent state of {parts} parts [{n}, ...]" if parts else "no recurrent state"
    raise UserError(f"the policy takes {wanted} with {n} observations, not {given}; see initial_state({n})")
