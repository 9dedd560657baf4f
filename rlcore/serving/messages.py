"""What clients and a policy server say to each other, in JSON.

A request has one ``observation``, in the structure of the space (arrays are nested lists), or a list of
``observations``; of a policy with a memory also the ``memory`` (or ``memories``) that the last answer in that episode
brought, which is left out, or null, where an episode begins. The answer has the ``action`` (or ``actions``), the
``memory`` (``memories``) and the ``weights_version``. A memory is a text to hand back as it is: whatever is remembered
of an episode is with the client, so that servers can be replaced between two steps.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rlcore.columns import Columns, concatenate, leaf_spaces, length, take
from rlcore.errors import SpaceError
from rlcore.loading import Memory, TrainedPolicy
from rlcore.structured import in_structure

ONE, MANY = ("observation", "memory", "action"), ("observations", "memories", "actions")
_T = np.dtype("<i8")


class BadRequest(Exception):
    """What was sent is no request; says why."""


class Unacceptable(Exception):
    """A request whose observations or memory are not of this policy; says why."""


def parse(body: bytes) -> dict[str, Any]:
    """The JSON object in ``body``. ``BadRequest`` for anything else, such as NaN, which JSON does not have."""
    try:
        request = json.loads(body, parse_constant=_refuse)
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from None
    if not isinstance(request, dict):
        raise BadRequest("the body is no JSON object")
    return request


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"it has no numbers such as {constant}")


class Conversation:
    """Reads requests to a policy, of at most ``rows`` observations, and words the answers."""

    def __init__(self, policy: TrainedPolicy, rows: int) -> None:
        self._policy, self._rows = policy, rows
        self._plain = set(leaf_spaces(policy.observation_space)) == {""}
        begun = policy.begin(1)
        self._parts = [(part.dtype, part.shape[1:]) for part in begun.state] if policy.remembers else []
        self._size = _T.itemsize + sum(dtype.itemsize * int(np.prod(shape)) for dtype, shape in self._parts)

    def read(self, request: Mapping[str, Any]) -> tuple[Columns, Memory, bool]:
        """Observations ``[n, ...]``, the memory of their episodes, and whether it is one alone.

        ``BadRequest`` for a request without observations or with unknown keys, ``Unacceptable`` for values that are
        none of this policy's.
        """
        single = "observation" in request
        keys = ONE if single else MANY
        if keys[0] not in request:
            raise BadRequest("the request has neither an 'observation' nor 'observations'")
        unknown = sorted(set(request) - set(keys[:2]))
        if unknown:
            raise BadRequest(f"unknown key '{unknown[0]}' beside '{keys[0]}'; there is '{keys[1]}'")
        try:
            obs = self._one(request[keys[0]]) if single else self._many(request[keys[0]])
        except SpaceError as error:
            raise Unacceptable(f"{keys[0]}: {error}") from None
        given = request.get(keys[1])
        return obs, self._memory(keys[1], [given] if single else given, length(obs)), single

    def _one(self, given: Any) -> Columns:
        obs, single = self._policy.read(given)
        if not single:
            raise SpaceError("these are several; send them as 'observations'")
        return obs

    def _many(self, given: Any) -> Columns:
        if not isinstance(given, list):
            raise BadRequest("'observations' is no list")
        if not 1 <= len(given) <= self._rows:
            raise Unacceptable(f"observations: {len(given)} of them, at least 1 and at most {self._rows} act at once")
        if self._plain:
            obs, single = self._policy.read(given)
            if single:
                raise SpaceError("this is one; send it as 'observation'")
            return obs
        return concatenate([self._one(one) for one in given])

    def _memory(self, key: str, given: Any, n: int) -> Memory:
        begun = self._policy.begin(n)
        if given is None or given == [None] * n:
            return begun
        if not self._parts:
            raise Unacceptable(f"{key}: this policy remembers nothing")
        if not isinstance(given, list) or len(given) != n:
            raise Unacceptable(f"{key}: there is one for each of {n} observations, or null where an episode begins")
        t, state = begun.t.copy(), tuple(part.copy() for part in begun.state)
        for row, text in enumerate(given):
            if text is not None:
                t[row], parts = self._decoded(key, text)
                for into, part in zip(state, parts, strict=True):
                    into[row] = part
        return Memory(state, t)

    def _decoded(self, key: str, text: Any) -> tuple[int, list[NDArray[Any]]]:
        wrong = Unacceptable(f"{key}: hand back the text that came with the last action; this is none of this policy's")
        if not isinstance(text, str):
            raise wrong
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise wrong from None
        if len(data) != self._size:
            raise wrong
        t, at, parts = int(np.frombuffer(data, _T, 1)[0]), _T.itemsize, []
        for dtype, shape in self._parts:
            count = int(np.prod(shape))
            parts.append(np.frombuffer(data, dtype, count, at).reshape(shape))
            at += count * dtype.itemsize
        if t < 0 or not all(np.isfinite(part).all() for part in parts):
            raise wrong
        return t, parts

    def answer(self, actions: Columns, memory: Memory, single: bool) -> dict[str, Any]:
        """What is sent back; plain JSON."""
        _, memories, key = ONE if single else MANY
        space = self._policy.action_space
        rows = [_listed(in_structure(space, take(actions, i), True)) for i in range(length(actions))]
        found: dict[str, Any] = {key: rows[0] if single else rows, "weights_version": self._policy.weights_version}
        if self._parts:
            texts = [self._encoded(memory, row) for row in range(len(rows))]
            found[memories] = texts[0] if single else texts
        return found

    def _encoded(self, memory: Memory, row: int) -> str:
        parts = [np.asarray(memory.t[row], _T).tobytes(), *(part[row].tobytes() for part in memory.state)]
        return base64.b64encode(b"".join(parts)).decode()


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_listed(part) for part in value]
    return np.asarray(value).tolist()

