"""Samples as tensors: the columns of a minibatch, and what TensorFlow has to know of them before there are any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore_tf.backend import tf

#: ``{column: [n, ...]}`` on one device.
Minibatch = dict[str, Any]
#: What columns look like: ``{column: TensorSpec([None, ...])}``.
Specs = dict[str, Any]


def column(shape: tuple[int, ...], dtype: Any) -> Any:
    """A column of so many rows as there are, ``[n, *shape]``."""
    return tf.TensorSpec((None, *shape), dtype)


def pin_columns(columns: Mapping[str, NDArray[Any]], specs: Specs, device: str) -> Minibatch:
    """Copies of ``columns`` on a device, in the dtypes that are expected."""
    with tf.device(device):
        return {
            name: tf.constant(np.asarray(columns[name], spec.dtype.as_numpy_dtype)) for name, spec in specs.items()
        }


def select(columns: Minibatch, rows: Any) -> Minibatch:
    """The ``rows``, int64 ``[m]``, of columns; may be traced."""
    return {name: tf.gather(column, rows) for name, column in columns.items()}
