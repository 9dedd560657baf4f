"""Tree search in Connect Four beside OpenSpiel's, and games played out at random.

``python benchmarks/tree_search.py`` measures on one core, by turns in one run, in seconds of processor time:

* ``openspiel``: simulations a second of ``open_spiel.python.algorithms.mcts`` from the empty board, with a network of
  two hidden layers of 128 units in numpy, one position at a time, which is what it asks for. Its evaluator remembers
  positions, as that of OpenSpiel's AlphaZero does.
* ``ours``: simulations a second of ``rlcore.tree_search`` with the same weights, at 1, 16, 64 and 256 games side by
  side, and one game with 8 and 16 simulations under way at once.
* ``playouts``: games a second from the empty board to the end, every move drawn evenly, by arrays of boards.

Prints one JSON object a line. OMP_NUM_THREADS=1 makes it one core. OpenSpiel comes with
``rlcore-multiagent[openspiel]``; without it there is no line of it.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.acting import MLP
from rlcore.columns import Columns
from rlcore.envs import build_env
from rlcore.model import BatchedModel
from rlcore.tree_search import Predictions, Search, SearchConfig, Trees

HIDDEN = 128
SIMULATIONS, ROUNDS = 200, 5
C_PUCT = 1.5
#: Games side by side, and simulations of each that are under way at once.
SIZES = ((1, 1), (1, 8), (1, 16), (16, 1), (64, 1), (256, 1))
BOARDS = 1 << 17
Float32 = NDArray[np.float32]


class Network:
    """From 84 numbers, the stones of both, to seven logits and a value."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.hidden = MLP(weights("hidden", (84, HIDDEN, HIDDEN), rng), "hidden", "relu")
        self.out = weights("out", (HIDDEN, 8), rng)

    def __call__(self, x: Float32) -> tuple[Float32, Float32]:
        outputs = np.maximum(self.hidden(x), 0.0) @ self.out["out.out.weight"]
        return outputs[:, :7], np.tanh(outputs[:, 7])


def weights(prefix: str, sizes: tuple[int, ...], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    *hidden, (inputs, outputs) = list(itertools.pairwise(sizes))
    found: dict[str, NDArray[Any]] = {}
    for name, (i, o) in [*((f"hidden_{n}", size) for n, size in enumerate(hidden)), ("out", (inputs, outputs))]:
        found[f"{prefix}.{name}.weight"] = rng.normal(0, i**-0.5, (i, o)).astype(np.float32)
        found[f"{prefix}.{name}.bias"] = np.zeros(o, np.float32)
    return found


def ours(network: Network, model: BatchedModel, games: int, leaves: int) -> Callable[[], int]:
    """So many simulations in a call."""

    def predict(obs: Columns) -> tuple[Float32, Float32]:
        assert isinstance(obs, dict)
        return network(obs["board"].reshape(len(obs["board"]), -1).astype(np.float32))

    config = SearchConfig(simulations=SIMULATIONS, leaves=leaves, c_puct=C_PUCT, solver=False)

    def run() -> int:
        rng = np.random.default_rng(0)
        trees = Trees(model, model.initial(games, rng), games * (SIMULATIONS + 1))
        Search(trees, Predictions(model, predict), config).run(SIMULATIONS, rng)
        return int(trees.edge_visits[trees.roots].sum())

    return run


def openspiel(network: Network) -> Callable[[], int] | None:
    """The same of OpenSpiel; None where it is not installed."""
    try:
        import pyspiel
        from open_spiel.python.algorithms import mcts
    except ModuleNotFoundError:
        return None
    game = pyspiel.load_game("connect_four")

    class Evaluator(mcts.Evaluator):  # type: ignore[misc]
        """Remembers what the network says of a position."""

        def __init__(self) -> None:
            self.known: dict[bytes, tuple[float, Float32]] = {}

        def found(self, state: Any) -> tuple[float, Float32]:
            planes = np.asarray(state.observation_tensor(), np.float32)[42:]
            key = planes.tobytes()
            if key not in self.known:
                logits, values = network(planes[None])
                exps = np.exp(logits[0] - logits[0].max())
                self.known[key] = float(values[0]), exps / exps.sum()
            return self.known[key]

        def evaluate(self, state: Any) -> NDArray[Any]:
            value = self.found(state)[0]
            return np.array([value, -value] if state.current_player() == 0 else [-value, value])

        def prior(self, state: Any) -> list[tuple[int, float]]:
            policy = self.found(state)[1]
            return [(action, policy[action]) for action in state.legal_actions()]

    def run() -> int:
        bot = mcts.MCTSBot(game, C_PUCT, SIMULATIONS, Evaluator(), solve=False, child_selection_fn=_puct(mcts))
        bot.mcts_search(game.new_initial_state())
        return SIMULATIONS

    return run


def _puct(mcts: Any) -> Any:
    return mcts.SearchNode.puct_value


def rates(contestants: dict[str, Callable[[], int]]) -> Iterator[dict[str, Any]]:
    """Of each what it does in a second of processor time, the middle of several turns."""
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for _ in range(ROUNDS):
        for name, run in contestants.items():
            started = time.process_time()
            done = run()
            found[name].append(done / (time.process_time() - started))
    for name, rates_of_it in found.items():
        yield {"task": "search", "contestant": name, "per_s": round(statistics.median(rates_of_it))}


def main() -> None:
    rng = np.random.default_rng(0)
    model = build_env("batched:connect_four", 1, {}).model()
    assert model is not None
    network = Network(rng)
    contestants: dict[str, Callable[[], int]] = {}
    peer = openspiel(network)
    if peer is not None:
        contestants["openspiel"] = peer
    for games, leaves in SIZES:
        contestants[f"ours games={games} leaves={leaves}"] = ours(network, model, games, leaves)
    states = model.initial(BOARDS, rng)
    contestants["playouts"] = lambda: len(model.playouts(states, rng))
    found = list(rates(contestants))
    base = next((row["per_s"] for row in found if row["contestant"] == "openspiel"), None)
    for row in found:
        if base and row["contestant"].startswith("ours"):
            row["times_openspiel"] = round(row["per_s"] / base, 1)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
