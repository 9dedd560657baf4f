"""The one place that imports TensorFlow: without the chatter of its start, and with one thread for small networks.

Everything here uses ``from rlcore_tf.backend import tf``.
"""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from rlcore.errors import UserError

__all__ = ["Traced", "start", "tf"]

log = logging.getLogger("rlcore_tf")

#: What a start writes on every machine without a GPU: information of the C++ parts, the banner and the continuation
#: that go with it, the error of the GPU's driver that is not there, and that of GPU libraries linked more than once.
#: Warnings and all other errors are news.
_CHATTER = (
    rb"I\d{4} .*",
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR",
    rb"To enable the following instructions: .*",
    rb"E\d{4} .*failed call to cuInit: .*",
    rb"E\d{4} .*Unable to register \w+ factory: .*",
)
#: The program that reads stderr meanwhile: chatter goes to its stdout in the end, all else at once to the stderr that
#: there was. After a crash nobody reads its stdout.
_FILTER = """
import os, re, sys
chatter, held = re.compile(sys.argv[1].encode()), b""
for line in sys.stdin.buffer:
    if chatter.fullmatch(line.rstrip()):
        held += line
    else:
        os.write(2, line)
try:
    os.write(1, held)
except BrokenPipeError:
    pass
"""


@contextmanager
def without_chatter() -> Iterator[None]:
    """Keeps chatter from the process's stderr meanwhile and passes on all else, line by line as it comes.

    The C++ parts write to the file descriptor before any setting of theirs is read: nothing in Python stops them. The
    descriptor is read by a process of its own, which writes on what is no chatter even where this one crashes. Chatter
    is logged at level DEBUG. With ``TF_CPP_MIN_LOG_LEVEL=0`` in the environment, without a stderr, or where no such
    process can be had, nothing is kept back.
    """
    reader = None if _SHOW_ALL else _reader()
    if reader is None or reader.stdin is None:
        yield
        return
    stderr = os.dup(2)
    os.dup2(reader.stdin.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        try:
            held, _ = reader.communicate(timeout=5.0)
        except subprocess.TimeoutExpired:  # a process that another thread has started writes to it: it reads on
            held = b""
        for line in held.splitlines():
            log.debug("%s", line.decode(errors="replace"))


def _reader() -> subprocess.Popen[bytes] | None:
    command = [sys.executable or "", "-I", "-S", "-c", _FILTER, b"|".join(_CHATTER).decode()]
    try:
        os.fstat(2)
        # In a session of its own Ctrl-C does not reach it.
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        log.debug("what TensorFlow writes as it starts is not sorted: %s", error)
        return None


_SHOW_ALL = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1") == "0"
with without_chatter():
    import tensorflow as tf


#: Below so many parameters a second thread costs more than it brings.
SMALL_MODEL = 1_000_000
#: Set in the environment, they say how many threads TensorFlow is to use.
THREAD_VARIABLES = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def start(devices: Sequence[str], parameters: int) -> list[str]:
    """Starts TensorFlow's runtime, if nothing has started it yet, and gives ``("cpu",)``, ``("cuda:0", "cuda:1")`` ...
    as TensorFlow writes them. ``UserError`` for a device that is not there.

    A model of few ``parameters`` that computes on CPUs only is given one thread within and one between operations:
    small networks are slower with more, results depend on the number of cores then, and several workers share a
    machine. The setting is the process's, and can be made only once: who comes later, has used TensorFlow before, or
    has set one of :data:`THREAD_VARIABLES`, has the threads that there are. Memory of GPUs is taken as it is needed.
    """
    if not devices:
        raise UserError("a policy graph needs at least one device")
    gpu = any(not device.startswith("cpu") for device in devices)
    _start(gpu, threads=1 if parameters < SMALL_MODEL and not gpu else None)
    return [_device_name(device) for device in devices]


@functools.cache
def _call_settings(dtype: Any) -> bytes:
    """How graphs that compute in ``dtype`` are optimised and run.

    As in eager calls, what a GPU cannot do is done by the CPU. Operations in float64 are not joined: TensorFlow can do
    so with none of them, and warns of each that it looks at.
    """
    settings = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    if dtype == tf.float64:
        rewriting = settings.graph_options.rewrite_options
        rewriting.remapping = rewriting.OFF
    found: bytes = settings.SerializeToString()
    return found


class Traced:
    """A function as TensorFlow runs it: traced at the first call, for good, as the ``signature`` of its arguments is
    fixed.

    The graph is called by the operation that calls graphs: past ``tf.function``, which would look anew at each call
    which of its graphs the arguments are for, and past the checks of its concrete functions. That takes as long as half
    an update of a small network. Arguments have to be tensors of the signature's dtypes and shapes.
    """

    def __init__(self, function: Callable[..., Any], signature: Sequence[Any], dtype: Any) -> None:
        """``dtype`` is what most of it is computed in."""
        signature = tuple(signature)
        self._settings = _call_settings(dtype)

        def of_tensors(*tensors: Any) -> Any:
            return function(*tf.nest.pack_sequence_as(signature, tensors))

        self._function = tf.function(of_tensors, input_signature=tf.nest.flatten(signature), autograph=False)
        self._graph: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._graph is None:
            self._trace()
        inputs = [*tf.nest.flatten(arguments), *self._captured]
        outputs = tf.raw_ops.StatefulPartitionedCall(
            args=inputs, Tout=self._dtypes, f=self._graph, config_proto=self._settings
        )
        found = iter(outputs)
        return tf.nest.pack_sequence_as(self._structure, [next(found) if there else None for there in self._there])

    def _trace(self) -> None:
        self._graph = graph = self._function.get_concrete_function()
        self._captured = list(graph.captured_inputs)
        self._structure = graph.structured_outputs
        #: Of each place in the structure, whether there is a tensor.
        self._there = [output is not None for output in tf.nest.flatten(self._structure)]
        self._dtypes = [output.dtype for output in graph.outputs]

    @property
    def traces(self) -> int:
        """How often it has been traced: once, if it was ever called."""
        return int(self._function.experimental_get_tracing_count())


@functools.cache
def _start(gpu: bool, threads: int | None) -> None:
    """With ``gpu`` all that TensorFlow writes is shown: it may say why there is none."""
    with nullcontext() if gpu else without_chatter():
        try:
            for device in tf.config.list_physical_devices("GPU"):
                tf.config.experimental.set_memory_growth(device, True)
            if threads is not None and not any(os.environ.get(name) for name in THREAD_VARIABLES):
                tf.config.threading.set_intra_op_parallelism_threads(threads)
                tf.config.threading.set_inter_op_parallelism_threads(threads)
        except RuntimeError as error:  # it is running, with other settings
            log.info("TensorFlow is running already and keeps its threads: %s", error)
        tf.constant(0.0)


def _device_name(device: str) -> str:
    kind, _, index = device.partition(":")
    names = {"cpu": "CPU", "cuda": "GPU", "gpu": "GPU"}
    if kind not in names or not (index or "0").isdecimal():
        raise UserError(f"TensorFlow knows no device '{device}'")
    there = len(tf.config.list_logical_devices(names[kind]))
    if int(index or 0) >= there:
        raise UserError(f"device '{device}' was asked for, but TensorFlow sees {there} of its kind")
    return f"/{names[kind]}:{index or 0}"
