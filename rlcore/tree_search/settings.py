"""Settings of a tree search."""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from rlcore.policy_graph import GraphConfig
from rlcore.schedule import NonNegativeSchedule


class SearchConfig(GraphConfig):
    """How a move is found.

    ``simulations`` of each move, of which ``leaves`` are evaluated together: each of these counts as ``virtual_loss``
    lost games on its way, so that the next looks elsewhere. ``c_puct`` weighs the priors against the values
    (Silver et al. 2017, methods, "Select"). ``root_noise`` is the share of a Dirichlet distribution with parameter
    ``noise_alpha`` in the priors at the root, ``temperature`` (a schedule of a player's own moves) flattens the visits
    that a move is drawn by, and ``random_moves`` is the share of moves that are drawn evenly from the legal ones: all
    three hold where it explores alone. ``reuse`` goes on from the part of the last tree that is still of use: what it
    finds then depends on the calls before, and the trees are part of the state.

    ``solver`` proves values: a move to a won position wins, and a position is as good as its best move once all are
    proven (Winands et al. 2008, "Monte-Carlo Tree Search Solver"). What is proven is not looked into any more.
    """

    simulations: PositiveInt = 64
    leaves: PositiveInt = 1
    virtual_loss: NonNegativeFloat = 1.0
    c_puct: PositiveFloat = 1.5
    root_noise: float = Field(default=0.25, ge=0.0, le=1.0)
    noise_alpha: PositiveFloat = 1.0
    temperature: NonNegativeSchedule = 1.0
    random_moves: float = Field(default=0.0, ge=0.0, le=1.0)
    reuse: bool = False
    solver: bool = True
