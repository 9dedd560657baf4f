"""SampleBatch and MultiAgentBatch: what samplers hand over and losses consume. Two tables of numpy columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Array, Columns, from_table
from rlcore.errors import BatchError

#: The policy that acts where only one does.
DEFAULT_POLICY = "default"

# Row columns that every sampler fills.
OBS = "obs"
ACTIONS = "actions"
REWARDS = "rewards"
TERMINATED = "terminated"
TRUNCATED = "truncated"
T = "t"
ENV_STEP = "env_step"
# Row columns that acting, postprocessing and replay add.
ACTION_LOGP = "action_logp"
VF_PREDS = "vf_preds"
ADVANTAGES = "advantages"
VALUE_TARGETS = "value_targets"
DISCOUNTS = "discounts"
STEPS = "steps"
WEIGHTS = "weights"
PRIORITIES = "priorities"
BATCH_INDEXES = "batch_indexes"
# Cut columns, one row per piece.
START = "start"
LENGTH = "length"
SLOT = "slot"
AGENT_ID = "agent_id"
EPS_ID = "eps_id"
POLICY_VERSION = "policy_version"
LAST_OBS = "last_obs"
LAST_VALUE = "last_value"
BOOTSTRAP = "bootstrap"
STATE_IN = "state_in"
LAST_STATE = "last_state"


class SampleBatch:
    """Pieces of trajectories: a table of rows, and a table of cuts with one row per piece.

    ``rows`` maps a column name to an array of shape ``[N, ...]``. Rows of one piece are contiguous and in time order.

    ========== ======= =====================================================================
    row column dtype   meaning
    ========== ======= =====================================================================
    obs        space's what the policy saw (after the filter); nested spaces as ``obs.leaf``
    actions    space's what acting returned, before it is clipped or shifted for the environment
    rewards    float32 of the transition
    terminated bool    the environment ended the episode with this transition
    truncated  bool    a limit ended it; the successor's value still counts
    t          int32   step of this agent in its episode, from 0
    env_step   int64   step of the environment in its episode, from 0
    ========== ======= =====================================================================

    ``cuts`` maps a column name to an array of shape ``[pieces, ...]``: ``start length slot agent_id eps_id
    policy_version bootstrap last_obs last_value state_in.N last_state.N``. ``last_obs`` is the true observation after
    the piece's last row; ``bootstrap`` is false only where the environment terminated.

    Raises ``BatchError`` where columns of one table differ in length, or pieces do not tile the rows.
    """

    __slots__ = ("rows", "cuts")

    def __init__(self, rows: Mapping[str, Array], cuts: Mapping[str, Array]) -> None:
        self.rows: dict[str, Array] = dict(rows)
        self.cuts: dict[str, Array] = dict(cuts)
        for kind, table in (("rows", self.rows), ("cuts", self.cuts)):
            sizes = set(map(len, table.values()))
            if len(sizes) > 1:
                lengths = {name: len(column) for name, column in table.items()}
                raise BatchError(f"{kind} columns differ in length: {lengths}")
        if not tiles(self.cuts[START], self.cuts[LENGTH], len(self)):
            pieces = f"pieces {self.cuts[START].tolist()} of lengths {self.cuts[LENGTH].tolist()}"
            raise BatchError(f"{pieces} do not tile {len(self)} rows")

    def __len__(self) -> int:
        return len(next(iter(self.rows.values()))) if self.rows else 0

    def __getitem__(self, name: str) -> Array:
        return self.rows[name]

    def __contains__(self, name: object) -> bool:
        return name in self.rows

    def __repr__(self) -> str:
        return f"SampleBatch({len(self)} rows in {self.pieces} pieces: {', '.join(self.rows)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SampleBatch, (self.rows, self.cuts)

    @property
    def pieces(self) -> int:
        """The number of pieces."""
        return len(self.cuts[START])

    @property
    def obs(self) -> Columns:
        """The observations: one array, or ``{leaf: array}`` of a nested space."""
        return from_table(OBS, self.rows)

    @property
    def actions(self) -> Columns:
        """The actions as acting returned them: one array, or ``{leaf: array}`` of a nested space."""
        return from_table(ACTIONS, self.rows)

    @property
    def last_obs(self) -> Columns:
        """The observation after the last row of each piece."""
        return from_table(LAST_OBS, self.cuts)

    def state_in(self) -> tuple[Array, ...]:
        """The recurrent state before the first row of each piece; ``()`` without recurrence."""
        return _numbered(STATE_IN, self.cuts)

    def last_state(self) -> tuple[Array, ...]:
        """The recurrent state after the last row of each piece; ``()`` without recurrence."""
        return _numbered(LAST_STATE, self.cuts)

    def with_rows(self, **columns: Array) -> SampleBatch:
        """A batch that shares this one's arrays and has ``columns`` added or replaced in its rows."""
        return SampleBatch({**self.rows, **columns}, self.cuts)

    def with_cuts(self, **columns: Array) -> SampleBatch:
        """The same for the cuts."""
        return SampleBatch(self.rows, {**self.cuts, **columns})

    def take_pieces(self, index: NDArray[np.integer[Any]] | Sequence[int]) -> SampleBatch:
        """The pieces at ``index``, whole and in that order."""
        chosen = np.asarray(index, np.int64)
        sizes = self.cuts[LENGTH][chosen]
        rows = ranges(self.cuts[START][chosen], sizes)
        cuts = {name: column[chosen] for name, column in self.cuts.items()}
        cuts[START] = np.cumsum(sizes) - sizes
        return SampleBatch({name: column[rows] for name, column in self.rows.items()}, cuts)

    def copied(self, copy: Callable[[dict[str, Array]], dict[str, Array]]) -> SampleBatch:
        """The batch of copies of its tables, which keep their columns' lengths: they are not checked again."""
        batch = object.__new__(SampleBatch)
        batch.rows, batch.cuts = copy(self.rows), copy(self.cuts)
        return batch

    def piece_of_row(self) -> NDArray[np.int64]:
        """The index of the piece that each row belongs to, int64 ``[N]``."""
        return np.repeat(np.arange(self.pieces), self.cuts[LENGTH])

    def last_rows(self) -> NDArray[np.int64]:
        """The index of the last row of each piece, int64 ``[pieces]``."""
        return np.asarray(self.cuts[START] + self.cuts[LENGTH] - 1, np.int64)


def _numbered(base: str, table: Mapping[str, Array]) -> tuple[Array, ...]:
    names: list[str] = []
    while f"{base}.{len(names)}" in table:
        names.append(f"{base}.{len(names)}")
    return tuple(table[name] for name in names)


def tiles(starts: Array, sizes: Array, rows: int) -> bool:
    """Whether pieces lie one behind the other over all ``rows``."""
    if len(starts) < 2:
        return bool(starts[0] == 0 and sizes[0] == rows) if len(starts) else not rows
    ends = sizes.cumsum()
    return bool(ends[-1] == rows and starts[0] == 0 and (starts[1:] == ends[:-1]).all())


def ranges(starts: Array, sizes: Array) -> NDArray[np.int64]:
    """``[starts[0], ..., starts[0]+sizes[0]-1, starts[1], ...]`` as one int64 array."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - sizes), sizes), np.int64)


def concat(batches: Sequence[SampleBatch]) -> SampleBatch:
    """The pieces of all ``batches`` in order. Raises ``BatchError`` where their columns differ."""
    batches = [batch for batch in batches if len(batch)] or list(batches[:1])
    if not batches:
        raise BatchError("nothing to concatenate")
    if len(batches) == 1:
        return batches[0]
    tables = []
    for kind in ("rows", "cuts"):
        parts: list[dict[str, Array]] = [getattr(batch, kind) for batch in batches]
        names = [sorted(part) for part in parts]
        if any(other != names[0] for other in names):
            odd = sorted({name for part in names for name in part if any(name not in other for other in names)})
            raise BatchError(f"batches differ in {kind} columns: {', '.join(odd)}")
        tables.append({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    rows, cuts = tables
    cuts[START] = np.cumsum(cuts[LENGTH]) - cuts[LENGTH]
    return SampleBatch(rows, cuts)


#: ``{agent_id: (policy_id, batch)}``
Agents = Mapping[Any, tuple[str, SampleBatch]]


class MultiAgentBatch(Mapping[str, SampleBatch]):
    """``{policy_id: SampleBatch}`` and ``env_steps``, the number of *environment* steps that it stands for.

    ``agents`` are the raw batches by agent, where a policy's postprocessing is left to the learner and may look at
    the other agents.
    """

    __slots__ = ("policies", "env_steps", "agents")

    def __init__(self, policies: Mapping[str, SampleBatch], env_steps: int, agents: Agents | None = None) -> None:
        self.policies = dict(policies)
        self.env_steps = env_steps
        self.agents = agents

    @classmethod
    def of(cls, batch: SampleBatch | MultiAgentBatch) -> MultiAgentBatch:
        """``batch`` itself, or a lone policy's batch under ``"default"``: there each row is one environment step."""
        return cls({DEFAULT_POLICY: batch}, len(batch)) if isinstance(batch, SampleBatch) else batch

    def __getitem__(self, policy_id: str) -> SampleBatch:
        return self.policies[policy_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.policies)

    def __len__(self) -> int:
        return len(self.policies)

    def __repr__(self) -> str:
        return f"MultiAgentBatch({self.env_steps} environment steps: {self.policies})"

    def __reduce__(self) -> tuple[Any, ...]:
        return MultiAgentBatch, (self.policies, self.env_steps, self.agents)

    def select(self, policy_ids: Sequence[str]) -> MultiAgentBatch:
        """The batches of ``policy_ids`` that have rows."""
        return MultiAgentBatch(
            {name: batch for name, batch in self.policies.items() if name in policy_ids and len(batch)},
            self.env_steps,
            self.agents,
        )


def concat_agents(batches: Sequence[MultiAgentBatch]) -> MultiAgentBatch:
    """All ``batches`` as one: the policies' batches concatenated, the environment steps added."""
    names = list(dict.fromkeys(name for batch in batches for name in batch))
    by_agent: dict[Any, tuple[str, list[SampleBatch]]] = {}
    for batch in batches:
        for agent_id, (policy_id, own) in (batch.agents or {}).items():
            by_agent.setdefault(agent_id, (policy_id, []))[1].append(own)
    return MultiAgentBatch(
        {name: concat([batch[name] for batch in batches if name in batch]) for name in names},
        sum(batch.env_steps for batch in batches),
        {agent_id: (policy_id, concat(parts)) for agent_id, (policy_id, parts) in by_agent.items()} or None,
    )
