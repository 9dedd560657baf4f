"""What optimizers of frameworks remember, in flat arrays of the weights' one, in the form that update rules give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from rlcore.optim import UpdateRule
from rlcore.policy_graph import Weights


class FlatWeights(Protocol):
    """A framework's flat arrays ``[P]``, and their parts by canonical name."""

    def zeros(self) -> Any:
        """Another array ``[P]``, of zeros."""

    def arrays(self, flat: Any) -> Weights:
        """Copies of the parts of a flat array by name."""

    def write(self, flat: Any, arrays: Weights) -> None:
        """Copies ``arrays`` into the parts of the same names of a flat array."""

    def clear(self, flat: Any) -> None:
        """Makes a flat array zeros."""


class FlatMemory:
    """An optimizer's ``memory {slot: flat array}`` of ``parameters`` that all move alike, as ``rule`` says.

    In states it has the form of ``rule``'s own: ``{"step": n, slot: {name: array}}``.
    """

    def __init__(self, rule: UpdateRule, parameters: FlatWeights) -> None:
        self._fits, self._flat = rule.fits, parameters
        self.memory = {slot: parameters.zeros() for slot in rule.slots()}
        #: How many there were so far.
        self.steps = 0

    def get_state(self) -> dict[str, Any]:
        """``{"step": n, slot: {name: array}}``."""
        return {"step": self.steps, **{slot: self._flat.arrays(own) for slot, own in self.memory.items()}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``get_state`` gave; what another rule remembered is of no use, and this one begins."""
        fits = self._fits(state)
        self.steps = int(state["step"]) if fits else 0
        for slot, own in self.memory.items():
            if fits:
                self._flat.write(own, state[slot])
            else:
                self._flat.clear(own)


Form = TypeVar("Form")
#: Makes a framework's form of a rule, of it and of the parameters that it moves.
Forms = Mapping[type[UpdateRule], Callable[..., Form]]


def in_form(rule: UpdateRule, parameters: FlatWeights, forms: Forms[Form]) -> Form:
    """The framework's form of ``rule``. ``TypeError`` where ``forms`` has none."""
    for kind, form in forms.items():
        if isinstance(rule, kind):
            return form(rule, parameters)
    raise TypeError(f"{type(rule).__name__} is none of {', '.join(kind.__name__ for kind in forms)}")
