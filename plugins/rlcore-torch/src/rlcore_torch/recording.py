"""Tensor computations, backward passes included, noted down as they run and made into straight-line functions.

The kernels that a computation comes down to are seen below autograd (``TorchDispatchMode``), whoever calls them. This
is no compiler: a recording calls the same kernels in the same order.

What cannot be recorded passes through and leaves the recording incomplete, which is never replayed: numbers that leave
torch (``item()``, ``if tensor:``), random operators, sizes that depend on data (``nonzero``, indexing), changes of
inputs or constants in place. What goes past torch altogether is not seen: numbers that Python reads by ``numpy()`` or
``tolist()``, or takes from elsewhere. They end up in the recording as they were.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.utils._python_dispatch import TorchDispatchMode

from rlcore_torch.replays import Replay

# Operators whose name in torch calls the same kernel with the same arguments, but sooner: an operator object finds its
# way through Python at each call.
_FUNCTIONS = (
    "_log_softmax _log_softmax_backward_data abs add addcmul addmm argmax baddbmm bmm cat clamp clamp_max "
    "clamp_min dot eq exp expm1 gather ge gt le log_softmax logical_and lt maximum minimum mm mul ne neg "
    "ones_like relu scalar_tensor scatter_add select sigmoid square stack sub sum t threshold_backward transpose "
    "unbind unsqueeze where zeros_like"
)
_DIRECT = {
    f"aten::{name}": getattr(torch, name)
    for name in _FUNCTIONS.split()
    if isinstance(getattr(torch, name, None), types.BuiltinFunctionType)
}
_METHODS = {f"aten::{name}": name for name in ("expand", "masked_fill_", "new_zeros", "view")}
#: Of operators whose results are not those of the arguments' shapes and values alone.
_UNREPEATABLE = {torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
#: What a recording may hold as it is.
_PLAIN = (bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Notes what runs in its context; ``replay`` makes a function of it.

    The recording holds for inputs of the same shapes, dtypes and devices. Tensors that are neither inputs nor computed
    from them are taken for constants. The context never changes what a computation gives, nor raises.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nor here
        self._graph = Graph()
        self._nodes: dict[int, Node] = {}
        self._seen: list[Tensor] = []  # kept alive, so that no id is used twice
        self._storages: set[int] = set()
        self._given: set[int] = set()  # storages of inputs and constants
        self._constants: dict[str, Tensor] = {}
        self._views: set[Node] = set()
        self._complete = True
        for i, tensor in enumerate(inputs):
            self._give(tensor, self._graph.placeholder(f"input_{i}"))

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Saves the import of torch's compiler, seconds, which would only be told to leave this class alone. A torch
        # that does not ask imports it, or has no such need.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self._complete:
            self._note(func, args, kwargs, result)
        return result

    def _note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if _UNREPEATABLE.intersection(func.tags) or _changes(func, args, kwargs, self._given):
            self._complete = False
            return
        noted = [self._noted(arg) for arg in args]
        named = {name: self._noted(arg) for name, arg in kwargs.items()}
        if not self._complete:
            return
        node = self._call(func, tuple(noted), named)
        if isinstance(result, Tensor):
            self._see(result, node)
        elif isinstance(result, tuple | list) and all(part is None or isinstance(part, Tensor) for part in result):
            for i, part in enumerate(result):
                if part is not None:
                    one = self._graph.call_function(operator.getitem, (node, i))
                    self._see(part, one)
                    if node in self._views:
                        self._views.add(one)
        else:
            self._complete = False

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        if func is torch.ops.aten.detach.default:  # means nothing below autograd
            found: Node = args[0]
            return found
        if func is torch.ops.aten.t.default and args[0].target is torch.t:
            untransposed: Node = args[0].args[0]
            return untransposed
        name, _, _ = func.name().partition(".")
        if name in _METHODS:
            node = self._graph.call_method(_METHODS[name], args, kwargs)
        else:
            node = self._graph.call_function(_DIRECT.get(name, func), args, kwargs)
        if getattr(func, "is_view", False):
            self._views.add(node)
        return node

    def _noted(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._noted(part) for part in value]
        if not isinstance(value, Tensor):
            self._complete &= value is None or isinstance(value, _PLAIN)
            return value
        if id(value) not in self._nodes:
            # Sharing memory with what has been seen it must have come about unseen, and is no constant.
            self._complete &= value.untyped_storage().data_ptr() not in self._storages
            name = f"constant_{len(self._constants)}"
            self._constants[name] = value
            self._give(value, self._graph.create_node("get_attr", name))
        return self._nodes[id(value)]

    def _give(self, tensor: Tensor, node: Node) -> None:
        self._see(tensor, node)
        self._given.add(tensor.untyped_storage().data_ptr())

    def _see(self, tensor: Tensor, node: Node) -> None:
        self._nodes[id(tensor)] = node
        self._seen.append(tensor)
        self._storages.add(tensor.untyped_storage().data_ptr())

    def replay(self, outputs: Sequence[Tensor]) -> Replay | None:
        """A function that computes ``outputs``, to be called in inference mode; None where it would not."""
        if not self._complete or any(id(output) not in self._nodes for output in outputs):
            return None
        self._graph.output(tuple([self._nodes[id(output)] for output in outputs]))
        self._graph.eliminate_dead_code()
        return Replay(self._graph, self._views, self._constants)


def _changes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], storages: set[int]) -> bool:
    """Whether an operator writes to a tensor in ``storages``."""
    schema = getattr(func, "_schema", None)
    if schema is None:  # a torch that does not tell: by the custom of names
        name, _, overload = func.name().partition(".")
        written = [*args[:1], *kwargs.values()] if name.endswith("_") or "out" in overload else []
    elif schema.is_mutable:
        given = [*zip(schema.arguments, args, strict=False), *((a, kwargs.get(a.name)) for a in schema.arguments)]
        written = [value for argument, value in given if argument.alias_info and argument.alias_info.is_write]
    else:
        return False
    return any(isinstance(one, Tensor) and one.untyped_storage().data_ptr() in storages for one in written)
