"""Snapshots of simulators that can be read and set, and of the wrappers around them: ALE and MuJoCo.

A snapshot says where an episode is without playing it again. It is taken where all that surrounds the simulator is
known here; a wrapper of unknown type may hold anything, and then there is none.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from rlcore.columns import Array
from rlcore.errors import CheckpointError
from rlcore_gym.atari_frames import AtariFrames
from rlcore_gym.frame_stack import FrameStack

Env = gymnasium.Env[Any, Any]
Tree = dict[str, Any]

#: Wrappers that remember nothing.
_STATELESS = (
    wrappers.ClipAction,
    wrappers.ClipReward,
    wrappers.DtypeObservation,
    wrappers.FilterObservation,
    wrappers.FlattenObservation,
    wrappers.GrayscaleObservation,
    wrappers.RescaleAction,
    wrappers.RescaleObservation,
    wrappers.ReshapeObservation,
    wrappers.ResizeObservation,
)

#: What others remember: numbers and flags.
_ATTRIBUTES: Mapping[type[Any], tuple[str, ...]] = {
    wrappers.TimeLimit: ("_elapsed_steps",),
    wrappers.OrderEnforcing: ("_has_reset",),
    wrappers.PassiveEnvChecker: ("checked_reset", "checked_step", "checked_render"),
    wrappers.AtariPreprocessing: ("lives", "game_over"),
    AtariFrames: ("frames", "lives", "life_lost"),
}

#: What MuJoCo computes in a step and an environment may read before the next one, beside the state of the integration.
_DERIVED = (
    *("xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "subtree_com"),
    *("cinert", "cvel", "cacc", "cfrc_int", "cfrc_ext", "qacc", "qfrc_actuator", "qfrc_constraint"),
    *("actuator_force", "sensordata", "ten_length", "ten_velocity"),
)


def snapshot(env: Env) -> Tree | None:
    """Where ``env`` is, as a tree of dicts, arrays, numbers and strings; None where it cannot be known."""
    core = _core(env.unwrapped)
    if core is None:
        return None
    tree: Tree = {"class": type(env.unwrapped).__name__, "layers": {}}
    for depth, layer in enumerate(_wrappers(env)):
        state = _layer_state(layer)
        if state is None:
            return None
        tree["layers"][str(depth)] = state
    return tree | {"core": core[0]()}


def restore_snapshot(env: Env, tree: Mapping[str, Any]) -> bool:
    """Puts ``env``, which has been reset, where ``tree`` was taken; False where it is another or does not get there."""
    core = _core(env.unwrapped)
    layers = list(_wrappers(env))
    if core is None or tree.get("class") != type(env.unwrapped).__name__ or len(layers) != len(tree["layers"]):
        return False
    try:
        for depth, layer in enumerate(layers):
            state = tree["layers"][str(depth)]
            if state["type"] != type(layer).__name__:
                return False
            _set_layer(layer, state)
        return core[1](tree["core"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"the snapshot of a {type(env.unwrapped).__name__} cannot be read: {error!r}") from error


# -- wrappers


def _wrappers(env: Env) -> list[gymnasium.Wrapper[Any, Any, Any, Any]]:
    found = []
    while isinstance(env, gymnasium.Wrapper):
        found.append(env)
        env = env.env
    return found


def _layer_state(layer: Any) -> Tree | None:
    kind = type(layer)
    state: Tree = {"type": kind.__name__}
    if kind in _STATELESS:
        return state
    if kind is FrameStack:
        return state | {"frames": layer.get_frames()}
    if kind is wrappers.FrameStackObservation:
        frames = list(layer.obs_queue)
        if not all(isinstance(frame, np.ndarray) for frame in frames):
            return None
        return state | {"frames": np.array(frames)}
    if kind not in _ATTRIBUTES:
        return None
    state["attributes"] = {name: getattr(layer, name) for name in _ATTRIBUTES[kind] if hasattr(layer, name)}
    if kind is wrappers.AtariPreprocessing:
        state["screens"] = np.array(layer.obs_buffer)
    elif kind is AtariFrames:
        state["screens"] = np.array(layer.screens)
    return state


def _set_layer(layer: Any, state: Mapping[str, Any]) -> None:
    if isinstance(layer, FrameStack):
        layer.set_frames(state["frames"])
    elif isinstance(layer, wrappers.FrameStackObservation):
        layer.obs_queue = deque((np.array(frame) for frame in state["frames"]), maxlen=layer.stack_size)
    elif "attributes" in state:
        for name, value in state["attributes"].items():
            setattr(layer, name, value)
    if isinstance(layer, wrappers.AtariPreprocessing):
        layer.obs_buffer = [np.array(screen) for screen in state["screens"]]
    elif isinstance(layer, AtariFrames):
        layer.screens = [np.array(screen) for screen in state["screens"]]


# -- simulators

Core = tuple[Callable[[], Tree], Callable[[Mapping[str, Any]], bool]]


def _core(env: Any) -> Core | None:
    """How the state of the simulator is read and set; None for one that is not known."""
    kind = type(env)
    if kind.__module__ == "ale_py.env" and kind.__name__ == "AtariEnv":
        return lambda: _ale_state(env), lambda tree: _set_ale(env, tree)
    if kind.__module__.startswith("gymnasium.envs.mujoco."):
        return lambda: _mujoco_state(env), lambda tree: _set_mujoco(env, tree)
    return None


def _ale_state(env: Any) -> Tree:
    emulator = env.ale.cloneState(include_rng=True).serialize()
    return {"emulator": np.frombuffer(emulator, np.uint8).copy(), "memory": env.ale.getRAM()}


def _set_ale(env: Any, tree: Mapping[str, Any]) -> bool:
    ale_py = sys.modules["ale_py"]
    env.ale.restoreState(ale_py.ALEState(np.asarray(tree["emulator"], np.uint8).tobytes()))
    return np.array_equal(env.ale.getRAM(), tree["memory"])


def _mujoco_state(env: Any) -> Tree:
    state, _ = _integration_state(env)
    return {"state": state, "derived": {name: np.array(getattr(env.data, name)) for name in _DERIVED}}


def _set_mujoco(env: Any, tree: Mapping[str, Any]) -> bool:
    _, signature = _integration_state(env)
    sys.modules["mujoco"].mj_setState(env.model, env.data, np.asarray(tree["state"], np.float64), signature)
    for name, array in tree["derived"].items():
        getattr(env.data, name)[...] = array
    return np.array_equal(_integration_state(env)[0], tree["state"])


def _integration_state(env: Any) -> tuple[Array, int]:
    """All that the next step of the integration depends on, warm start included."""
    mujoco = sys.modules["mujoco"]
    signature = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    state = np.empty(mujoco.mj_stateSize(env.model, signature))
    mujoco.mj_getState(env.model, env.data, state, signature)
    return state, signature
