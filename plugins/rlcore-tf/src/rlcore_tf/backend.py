"""The one place that imports TensorFlow: without the chatter of its start, and with one thread for small networks.

Everything here uses ``from rlcore_tf.backend import tf``.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from rlcore.errors import UserError

__all__ = ["device_name", "start", "tf"]

log = logging.getLogger("rlcore_tf")

#: Information and warnings of the C++ parts, their banner, and the error that every machine without a GPU gets.
_CHATTER = re.compile(
    rb"^([IW]\d{4} .*|E\d{4} .*(cuInit|Unable to register \w+ factory).*"
    rb"|WARNING: All log messages before absl.*|To enable the following instructions.*|\s*)$"
)


@contextmanager
def without_chatter() -> Iterator[None]:
    """Holds back what is written to the process's stderr meanwhile, and passes on all but TensorFlow's chatter.

    The C++ parts write to the file descriptor, before any setting of theirs is read: nothing in Python stops them.
    What is held back for good is logged at level DEBUG.
    """
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            for line in held.read().splitlines():
                if _CHATTER.match(line):
                    log.debug("%s", line.decode(errors="replace"))
                else:
                    os.write(2, line + b"\n")


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
with without_chatter():
    import tensorflow as tf


def start() -> None:
    """Starts TensorFlow's runtime with one thread within and one between operations, if nothing has started it yet.

    Small networks are slower with more, results depend on the number of cores then, and several workers share a
    machine. A process that has used TensorFlow before keeps the threads that it has.
    """
    with without_chatter():
        try:
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        except RuntimeError as error:  # it is running, with other settings
            log.debug("TensorFlow keeps its threads: %s", error)
        tf.constant(0.0)


def device_name(devices: tuple[str, ...]) -> str:
    """``("cpu",)`` or ``("cuda:0",)`` as TensorFlow writes it. ``UserError`` for several, and for one not there."""
    if len(devices) != 1:
        raise UserError(f"the policy graphs of rlcore-tf learn on one device, not on {', '.join(devices) or 'none'}")
    kind, _, index = devices[0].partition(":")
    names = {"cpu": "CPU", "cuda": "GPU", "gpu": "GPU"}
    if kind not in names or not (index or "0").isdecimal():
        raise UserError(f"TensorFlow knows no device '{devices[0]}'")
    there = len(tf.config.list_physical_devices(names[kind]))
    if int(index or 0) >= there:
        raise UserError(f"device '{devices[0]}' was asked for, but TensorFlow sees {there} of its kind")
    return f"/{names[kind]}:{index or 0}"
