"""Seeds of Atari emulators, the same whatever a game is played in, and the frames without input drawn from them."""

from __future__ import annotations

import numpy as np

from rlcore_gym.seeds import Follow, following_seed, slot_seeds

_WORD = 1 << 32


def emulator_seed(seed: int) -> int:
    """What ``AtariEnv.reset(seed=seed)`` gives the emulator: an int32, also a negative one."""
    _, game = np.random.SeedSequence(seed).generate_state(n_words=2)
    return int(game.astype(np.int32))


def seed_of_a_game(seed: int) -> int:
    """``seed``, or one that follows from it, of which ALE makes a seed that its vector environment takes as well.

    ``AtariEnv.reset(seed=seed)`` derives a signed number; the vector environment takes negative ones for none at all.
    """
    while emulator_seed(seed) < 0:
        seed = following_seed(seed, Follow.GAME)
    return seed


def emulator_seeds(seed: int | None, count: int) -> list[int]:
    """A seed from 0 to 2**31 for the emulator of each of ``count`` slots that ``reset(seed)`` opens."""
    return [emulator_seed(seed_of_a_game(own)) for own in slot_seeds(seed, count)]


def noop_words(seed: int) -> np.random.RandomState:
    """The generator of an emulator that was given ``seed``: it has the words of C++'s ``std::mt19937``."""
    return np.random.RandomState(seed % _WORD)


def draw_noops(words: np.random.RandomState, noop_max: int) -> int:
    """How many frames without input begin a game: uniform from 0 to ``noop_max - 1``, 0 where ``noop_max`` is 0.

    The numbers are those that ALE and EnvPool draw in C++, by the GNU library's uniform distribution over integers
    (Lemire 2019, "Fast Random Integer Generation in an Interval", algorithm 5).
    """
    if noop_max < 2:
        return 0
    product = _word(words) * noop_max
    while product % _WORD < -noop_max % _WORD % noop_max:
        product = _word(words) * noop_max
    return product // _WORD


def _word(words: np.random.RandomState) -> int:
    return int.from_bytes(words.bytes(4), "little")
