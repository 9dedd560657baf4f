"""GraphBuilder: an ONNX graph as it grows, node by node. Values are known by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import DTypeLike, NDArray
from onnx import helper, numpy_helper

#: The operators that are used have their present meaning since this version (2021); old runtimes read it as well.
OPSET = 17
IR_VERSION = 8
#: The name of the first axis of all inputs and outputs.
ROWS = "n"

Value = str
Attribute = int | float | Sequence[int]


class GraphBuilder:
    """Inputs, nodes and outputs, added in the order in which they are computed."""

    def __init__(self) -> None:
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._taken: set[str] = set()

    def input(self, name: str, dtype: DTypeLike, shape: Sequence[int]) -> Value:
        """An input ``[n, *shape]``."""
        self._taken.add(name)
        self._inputs.append(helper.make_tensor_value_info(name, tensor_type(dtype), [ROWS, *shape]))
        return name

    def output(self, name: str, value: Value, dtype: DTypeLike, shape: Sequence[int]) -> None:
        """Hands ``value [n, *shape]`` out under ``name``."""
        self._taken.add(name)
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, tensor_type(dtype), [ROWS, *shape]))

    def constant(self, array: NDArray[Any], name: str = "constant") -> Value:
        """An array that never changes, under ``name`` or that with a number."""
        own = self._fresh(name)
        self._constants[own] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), own)
        return own

    def apply(
        self, operator: str, inputs: Sequence[Value], attributes: Mapping[str, Attribute] | None = None
    ) -> Value:
        """The one result of an operator of ONNX."""
        (value,) = self.apply_for(operator, inputs, 1, attributes)
        return value

    def apply_for(
        self, operator: str, inputs: Sequence[Value], results: int, attributes: Mapping[str, Attribute] | None = None
    ) -> list[Value]:
        """As many results of an operator that has several."""
        values = [self._fresh(operator.lower()) for _ in range(results)]
        given: dict[str, Any] = dict(attributes or {})
        self._nodes.append(helper.make_node(operator, list(inputs), values, **given))
        return values

    # -- what is often needed

    def cast(self, value: Value, dtype: DTypeLike) -> Value:
        """``value`` as numbers of another type."""
        return self.apply("Cast", [value], {"to": tensor_type(dtype)})

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """``value [n, ...]`` as ``[n, *shape]``."""
        return self.apply("Reshape", [value, self.constant(np.array([0, *shape], np.int64), "shape")])

    def columns(self, value: Value, index: NDArray[np.int64]) -> Value:
        """Some columns of ``value [n, k]``."""
        return self.apply("Gather", [value, self.constant(index, "index")], {"axis": 1})

    def join(self, values: Sequence[Value]) -> Value:
        """Values ``[n, a]``, ``[n, b]`` ... beside each other."""
        return values[0] if len(values) == 1 else self.apply("Concat", values, {"axis": 1})

    def split(self, value: Value, sizes: Sequence[int]) -> list[Value]:
        """``value [n, sum(sizes)]`` in pieces of so many columns."""
        if len(sizes) == 1:
            return [value]
        return self.apply_for(
            "Split", [value, self.constant(np.array(sizes, np.int64), "sizes")], len(sizes), {"axis": 1}
        )

    def model(self, metadata: Mapping[str, str], text: str) -> onnx.ModelProto:
        """All of it; ``metadata`` and ``text`` say what it is."""
        graph = helper.make_graph(
            self._nodes, "policy", self._inputs, self._outputs, list(self._constants.values()), doc_string=text
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="rlcore",
            doc_string=text,
        )
        helper.set_model_props(model, dict(metadata))
        return model

    def _fresh(self, name: str) -> str:
        own, number = name, 0
        while own in self._taken:
            number += 1
            own = f"{name}_{number}"
        self._taken.add(own)
        return own


def tensor_type(dtype: DTypeLike) -> int:
    """ONNX's number of a numpy type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
