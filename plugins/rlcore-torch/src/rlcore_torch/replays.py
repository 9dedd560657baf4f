"""Replay: what a recording comes to, a straight-line function of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.fx import Graph, GraphModule, Node

Function = Callable[..., tuple[Any, ...]]


class Replay:
    """Calls the recorded operations on other inputs of the same shapes, one after the other.

    Views of inputs, such as the transposes of matrices, are made anew only where an input is another tensor than the
    last time: those of parameters, which change in place, are made once.
    """

    def __init__(self, graph: Graph, views: Collection[Node], constants: Mapping[str, Tensor]) -> None:
        """``graph`` ends in a tuple of outputs; among its nodes are ``views`` of what they are computed from."""
        sources = _of_inputs(graph, views)
        # Views that something else is computed from, and their inputs.
        handed = {node: source for node, source in sources.items() if any(user not in sources for user in node.users)}
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        self._makers: list[_Maker] = []
        order: list[Node] = []
        for number, source in enumerate(inputs):
            own = [node for node, of in handed.items() if of is source]
            if own:
                chain = [node for node, of in sources.items() if of is source]
                self._makers.append(_Maker(number, slice(len(order), len(order) + len(own)), source, chain, own))
                order += own
        self._views: list[Any] = [None] * len(order)
        kept = [node for node in graph.nodes if node.op == "get_attr"]
        self._constants = [constants[str(node.target)] for node in kept]
        rest = [node for node in graph.nodes if node not in sources and node.op not in ("placeholder", "get_attr")]
        self._function = _function([*inputs, *order, *kept], rest[:-1], rest[-1].args[0])

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The recorded outputs, to be asked for in inference mode."""
        for maker in self._makers:
            given = inputs[maker.number]
            if given is not maker.source:
                maker.source = given
                self._views[maker.place] = maker.make(given)
        return self._function(*inputs, *self._views, *self._constants)


class _Maker:
    """Makes views of input ``number``, which stand at ``place`` among all views; ``source`` is what it was last."""

    def __init__(self, number: int, place: slice, of: Node, chain: Sequence[Node], handed: Sequence[Node]) -> None:
        self.number, self.place = number, place
        self.make = _function([of], chain, handed)
        self.source: Tensor | None = None


def _of_inputs(graph: Graph, views: Collection[Node]) -> dict[Node, Node]:
    """The nodes that are views of inputs, or of views of them, and of which."""
    sources: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in views and len(node.all_input_nodes) == 1:
            (of,) = node.all_input_nodes
            source = of if of.op == "placeholder" else sources.get(of)
            if source is not None:
                sources[node] = source
    return sources


def _function(given: Sequence[Node], computed: Sequence[Node], results: Any) -> Function:
    """A function of the nodes ``given`` that computes those after them and returns ``results``, some of all these."""
    graph = Graph()
    own = {node: graph.placeholder(f"given_{i}") for i, node in enumerate(given)}
    for node in computed:
        own[node] = graph.node_copy(node, own.__getitem__)
    graph.output(tuple([own[node] for node in results]))
    function: Function = GraphModule({}, graph).forward
    return function
