"""What surrounds a session of a search: its Ray, and what Ray Tune takes from the process."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from rlcore.errors import ConfigError
from rlcore.runtime.ray import session
from rlcore.runtime.ray.session import RayConfig
from rlcore_tune.config import SearchResources


@contextmanager
def connected(resources: SearchResources) -> Iterator[None]:
    """A Ray for the search, or a connection to the one that it names."""
    with _environment({"RAY_CHDIR_TO_TRIAL_DIR": "0"}):
        try:
            connection = session.enter(RayConfig(address=resources.address, cpus=resources.cpus))
        except ConfigError as error:
            raise ConfigError(str(error).replace("runtime.address", "resources.address")) from error
    try:
        yield
    finally:
        connection.leave()


@contextmanager
def tune_settings(trials: int) -> Iterator[None]:
    """What Tune takes from the environment: all trials at once, no files and no words of its own."""
    variables = {
        "TUNE_MAX_PENDING_TRIALS_PG": str(trials),
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
        "TUNE_GLOBAL_CHECKPOINT_S": "1000000",
        "TUNE_WARN_THRESHOLD_S": "60",
        "RAY_AIR_NEW_OUTPUT": "0",
    }
    logger = logging.getLogger("ray.tune")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with _environment(variables), _terminated_as_interrupted(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"ray\.")
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a search as Ctrl-C does, as it does a training; Tune's own handler is gone afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
