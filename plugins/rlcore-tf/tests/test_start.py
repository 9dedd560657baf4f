"""How TensorFlow is started: when it is asked for, in silence, with one thread."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

BUILD = """
import gymnasium, numpy as np
from rlcore_tf import PolicyGradient
space = gymnasium.spaces
graph = PolicyGradient(space.Box(-1, 1, (3,)), space.Discrete(2), PolicyGradient.Config(), rng=np.random.default_rng(0))
graph.act(np.zeros((2, 3), np.float32), rng=np.random.default_rng(0))
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)


def test_importing_the_package_does_not_import_tensorflow():
    assert run("import rlcore_tf, sys; print('tensorflow' in sys.modules, dir(rlcore_tf))").stdout.startswith("False")
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        import rlcore_tf

        _ = rlcore_tf.Nonsense


def test_it_starts_in_silence_with_one_thread_and_passes_on_what_others_write():
    done = run(
        BUILD
        + """
import os, pickle, sys
from rlcore_tf.backend import tf, without_chatter
print(tf.config.threading.get_intra_op_parallelism_threads(), tf.config.threading.get_inter_op_parallelism_threads())
with without_chatter():
    os.write(2, b"I0000 00:00:1.5 17 port.cc:153] chatter\\n")
    os.write(2, b"E0000 00:00:1.5 17 other.cc:1] trouble\\n")
    print("mine", file=sys.stderr, flush=True)
"""
    )
    assert done.stdout.split() == ["1", "1"]
    assert done.stderr.splitlines() == ["E0000 00:00:1.5 17 other.cc:1] trouble", "mine"]


def test_a_process_that_has_started_tensorflow_keeps_its_threads(monkeypatch):
    from rlcore_tf import backend

    def refuse(threads: int) -> None:
        raise RuntimeError("Intra op parallelism cannot be modified after initialization.")

    monkeypatch.setattr(backend.tf.config.threading, "set_intra_op_parallelism_threads", refuse)
    backend.start()


def test_unpickling_its_actor_imports_no_framework(tmp_path):
    from rlcore_tf import PolicyGradient

    spaces = gymnasium.spaces.Box(-1.0, 1.0, (3,)), gymnasium.spaces.Discrete(2)
    graph = PolicyGradient(*spaces, PolicyGradient.Config(), rng=np.random.default_rng(0))
    path = tmp_path / "actor.pickle"
    path.write_bytes(pickle.dumps(graph.actor()))
    done = run(
        f"import pickle, sys; pickle.load(open({str(path)!r}, 'rb'))\n"
        "print([name for name in ('torch', 'tensorflow', 'rlcore_tf') if name in sys.modules])"
    )
    assert done.stdout.strip() == "[]"
