"""State trees to documents and back, bit for bit."""

from __future__ import annotations

import json
import math
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.errors import CheckpointError
from rlcore.tree import copy_tree, flatten, unflatten

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(endianness="?"),
    hnp.unicode_string_dtypes(endianness="?", max_len=5),
    hnp.byte_string_dtypes(max_len=5),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
)
ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**200), max_value=2**200),
    st.floats(allow_nan=True),
    st.text(st.characters(codec=None, exclude_categories=()), max_size=5),
    ARRAYS,
)
KEYS = st.one_of(st.text(max_size=5), st.sampled_from(["$int", "$array", "__metadata__", "a/b"]), st.integers())
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Equality to the bit, types included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one.hex() == other.hex()
    return bool(one == other)


def there_and_back(tree: Any) -> Any:
    document, arrays = flatten(tree)
    return unflatten(json.loads(json.dumps(document, allow_nan=False)), arrays)


@settings(deadline=None, max_examples=300)
@given(TREES)
def test_any_tree_comes_back_bit_for_bit(tree: Any) -> None:
    assert same(there_and_back(tree), tree)


@pytest.mark.parametrize("generator", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_bit_generators_go_on_with_the_same_numbers(generator: Any) -> None:
    source = np.random.Generator(generator(7))
    source.random(5, np.float32)
    restored = np.random.Generator(generator(0))
    restored.bit_generator.state = there_and_back(source.bit_generator.state)
    assert np.array_equal(restored.integers(0, 2**63, 10), source.integers(0, 2**63, 10))


def test_numpy_scalars_keep_their_type() -> None:
    tree = {"a": np.float64(0.1), "b": np.int32(-3), "c": np.bool_(True), "d": np.str_("é"), "e": np.float32(math.inf)}
    back = there_and_back(tree)
    assert same(back, tree)
    assert [type(value) for value in back.values()] == [np.float64, np.int32, np.bool_, np.str_, np.float32]


def test_views_with_strides_are_stored_by_value() -> None:
    base = np.arange(24).reshape(4, 6)
    assert same(there_and_back({"t": base.T, "s": base[::2, ::-1]}), {"t": base.T.copy(), "s": base[::2, ::-1].copy()})


def test_paths_that_collide_get_names_of_their_own() -> None:
    tree = {"a/b": np.array([1]), "a": {"b": np.array([2])}, "__metadata__": np.array([3])}
    _, arrays = flatten(tree)
    assert sorted(arrays) == ["__metadata__#2", "a/b", "a/b#2"]
    assert same(there_and_back(tree), tree)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"bytes", "'/policy/value' is a builtins.bytes"),
        ({1, 2}, "'/policy/value' is a builtins.set"),
        (print, "is a builtins.builtin_function_or_method"),
        (1j, "is a builtins.complex"),
        (np.array([{}], dtype=object), "is an array of type dtype('O')"),
        (np.zeros(2, [("x", "f4")]), "is an array of type dtype([('x', '<f4')])"),
        (np.array(["a"], dtype=np.dtypes.StringDType()), "is an array of type StringDType()"),
        (np.ma.masked_array([1, 2], [True, False]), "is an array of type dtype('int64')"),
        ({1.5: 2}, "'/policy/value' has the key 1.5; keys in a checkpoint are strings or integers"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(value: Any, said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        flatten({"policy": {"value": value}})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"$call": "os.system"}, "an entry that this version does not know: $call"),
        ({"$int": "12", "$float": "nan"}, "does not know: $int, $float"),
        ({"$int": 12}, "does not know: $int"),
        ({"$int": "x"}, "the state holds 'x', which cannot be read"),
        ({"$float": "1.0"}, "does not know: $float"),
        ({"$dict": [[["list"], 1]]}, "does not know: $dict"),
        ({"$array": "absent"}, "refers to an array 'absent' that is not there"),
        ({"$array": "a", "dtype": "O", "shape": [1]}, "the state holds 'a', which cannot be read"),
        ({"$array": "a", "dtype": "<U9", "shape": [1]}, "8 bytes are no array of shape [1] and type <U9"),
        ({"$array": "a", "dtype": "<U2", "shape": "x"}, "the state holds 'a', which cannot be read"),
        ({"$array": "a", "dtype": ["<U2"], "shape": [1]}, "the state holds 'a', which cannot be read"),
        ({"$array": "a", "dtype": "<U2", "shape": [-1, -1]}, "the state holds 'a', which cannot be read"),
        ({"$array": "a", "dtype": "<U2"}, "the state holds 'a', which cannot be read"),
    ],
)
def test_documents_that_nobody_wrote_are_refused(document: Any, said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        unflatten(document, {"a": np.zeros(8, np.uint8)})
    assert said in str(caught.value)


def test_a_copied_tree_is_equal_and_shares_no_array_or_container() -> None:
    array = np.arange(6.0).reshape(2, 3)
    tree = {"a": array, "view": array.T, "list": [array, {"n": 1}], "tuple": (array[0], "x"), "scalar": np.float32(2)}
    copied = copy_tree(tree)
    np.testing.assert_equal(copied, tree)
    assert type(copied["tuple"]) is tuple and copied["scalar"] is tree["scalar"]
    array[:] = 0
    tree["list"][1]["n"] = 2
    assert copied["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and copied["view"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert copied["list"][0].sum() == 15 and copied["list"][1] == {"n": 1} and copied["tuple"][0].tolist() == [0, 1, 2]


def test_equal_arrays_are_stored_once_and_come_back_apart() -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    tree = {
        "optimizer": {"w": weights, "nan": np.full(2, np.nan)},
        "policy": {"w": weights.copy(), "reshaped": weights.reshape(3, 2), "cast": weights.astype(np.float64)},
        "zero": np.zeros(1, np.float32),
        "minus_zero": -np.zeros(1, np.float32),
        "bytes": np.zeros(4, np.uint8),
        "text": np.array(["a"]),
        "same_text": np.array(["a"]),
        "empty": [np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(())],
        "nan": np.full(2, np.nan),
    }
    document, arrays = flatten(tree)
    assert document["policy"]["w"] == document["optimizer"]["w"] == {"$array": "optimizer/w"}
    assert document["nan"] == document["optimizer"]["nan"]
    assert len(arrays) == 10
    again = unflatten(json.loads(json.dumps(document)), arrays)
    np.testing.assert_equal(again, tree)
    assert np.signbit(again["minus_zero"][0]) and not np.signbit(again["zero"][0])
    again["policy"]["w"][:] = 9
    assert again["optimizer"]["w"].sum() == 15
