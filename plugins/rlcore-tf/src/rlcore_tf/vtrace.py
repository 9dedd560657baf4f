"""V-trace (Espeholt et al. 2018) on tensors: the recursion of :mod:`rlcore.returns`, scanned by TensorFlow."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from rlcore.returns import trajectory
from rlcore_tf.backend import tf


class VTrace(NamedTuple):
    """``targets [n]`` of the values, v of equation 1 there, and ``errors [n]``, ``r + gamma * v of the successor - V``:
    what policy gradients weigh with a ratio (section 4.2 there). float64; no gradient flows through them."""

    targets: Any
    errors: Any


def backward_scan(a: Any, b: Any, longest: Any) -> Any:
    """``x[i] = a[i] + b[i] * x[i + 1]`` of tensors ``[n]``, in passes over all rows (Hillis & Steele 1986).

    ``b`` is 0 in the last row of every piece, and no piece has more rows than ``longest``, a scalar int64.
    """
    rows = tf.shape(a, tf.int64)[0]
    index = tf.range(rows)

    def one_pass(reach: Any, x: Any, carry: Any) -> tuple[Any, ...]:
        later = tf.minimum(index + reach, rows - 1)
        # Past the end there is nothing: a carry of 0 there makes it so from then on.
        carry = tf.where(index + reach < rows, carry, tf.zeros_like(carry))
        return 2 * reach, x + carry * tf.gather(x, later), carry * tf.gather(carry, later)

    start = tf.ones((), tf.int64)
    _, x, _ = tf.while_loop(lambda reach, *_: reach < longest, one_pass, [start, a, b], parallel_iterations=1)
    return x


def vtrace(
    rewards: Any,
    values: Any,
    successors: Any,
    discounts: Any,
    continues: Any,
    log_ratios: Any,
    *,
    longest: Any,
    lambda_: float = 1.0,
    rho_clip: float = 1.0,
    trace_clip: float = 1.0,
) -> VTrace:
    """Off-policy targets of the *current* ``values``, as ``rlcore.returns.vtrace`` computes them.

    All tensors are ``[n]``: rows of pieces, each in time order and of ``longest`` rows at the most. ``successors`` are
    the current values of the observations after the rows, ``discounts`` gamma, and 0 where the environment terminated,
    ``continues`` bool: the next row is the successor. ``log_ratios`` is the log-probability of the action under the
    current policy less that under the one that acted; ``rho_clip`` bounds the ratio that weighs a temporal difference,
    ``trace_clip`` the one that carries later ones back.
    """
    rewards, values, successors, discounts, log_ratios = (
        tf.stop_gradient(tf.cast(part, tf.float64)) for part in (rewards, values, successors, discounts, log_ratios)
    )
    ratios = tf.exp(log_ratios)
    found = trajectory(
        rewards,
        values,
        successors,
        discounts,
        tf.cast(continues, tf.float64),
        lambda_=lambda_,
        rho=tf.minimum(ratios, tf.constant(rho_clip, tf.float64)),
        trace=tf.minimum(ratios, tf.constant(trace_clip, tf.float64)),
        scan=functools.partial(backward_scan, longest=longest),
    )
    later = tf.concat([found.targets[1:], successors[-1:]], axis=0)
    errors = rewards + discounts * tf.where(continues, later, successors) - values
    return VTrace(found.targets, errors)
