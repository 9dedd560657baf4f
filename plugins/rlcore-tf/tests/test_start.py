"""How TensorFlow is started: when it is asked for, in silence, with one thread."""

from __future__ import annotations

import os
import pickle
import signal
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


def run(code: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")} | variables
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=check, env=environment)


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
    os.write(2, b"W0000 00:00:1.5 17 gpu_device.cc:1] libraries are missing\\n")
    print("mine", file=sys.stderr, flush=True)
"""
    )
    assert done.stdout.split() == ["1", "1"]
    assert done.stderr.splitlines() == [
        "E0000 00:00:1.5 17 other.cc:1] trouble",
        "W0000 00:00:1.5 17 gpu_device.cc:1] libraries are missing",
        "mine",
    ]


LEARN = """
import sys, gymnasium, numpy as np
from functools import partial
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.testing.environments import Drawn
from rlcore_tf import PPO
spaces = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)
config = PPO.Config(model={"hidden": [8], "precision": sys.argv[1]})
graph = PPO(*spaces, config, rng=np.random.default_rng(0))
env = partial(Drawn, *spaces)
batch = graph.postprocess(PolicyEvaluator(env=env, graph=graph, num_envs=2, rng=0).sample())
graph.apply_gradients(graph.gradients(batch).gradients)
graph.learn(batch)
list(graph.learn_in_turn(batch, [np.arange(8), np.arange(8)]))
print("done")
"""


@pytest.mark.parametrize("precision", ["float32", "float64", "bfloat16"])
def test_it_acts_and_learns_in_silence(precision):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    done = subprocess.run([sys.executable, "-c", LEARN, precision], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_process_that_has_started_tensorflow_keeps_its_threads():
    done = run(
        """
import logging, sys
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(2)
tf.constant(0.0)
logging.basicConfig(stream=sys.stdout, format="%(name)s: %(message)s", level="INFO")
"""
        + BUILD
        + "print(tf.config.threading.get_intra_op_parallelism_threads())"
    )
    said, threads = done.stdout.splitlines()
    assert said.startswith("rlcore_tf: TensorFlow is running already and keeps its threads")
    assert threads == "2"


FAKE = """
import sys, types
fake = types.ModuleType("tensorflow")
sys.modules["tensorflow"] = fake
import os
from rlcore_tf.backend import without_chatter
"""
CHATTER = r'os.write(2, b"I0000 00:00:1.5 17 port.cc:153] chatter\n")'
FATAL = r'os.write(2, b"F0000 00:00:1.5 17 cpu.cc:1] no AVX here\n")'


def test_what_is_written_before_a_crash_is_seen():
    done = run(f"{FAKE}\nwith without_chatter():\n    {CHATTER}; {FATAL}; os.abort()", check=False)
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.splitlines() == ["F0000 00:00:1.5 17 cpu.cc:1] no AVX here"]


def test_what_is_written_before_an_exception_is_seen():
    done = run(f"{FAKE}\nwith without_chatter():\n    {CHATTER}; {FATAL}; raise ImportError('broken')", check=False)
    assert done.stderr.splitlines()[0] == "F0000 00:00:1.5 17 cpu.cc:1] no AVX here"
    assert done.stderr.splitlines()[-1] == "ImportError: broken"


def test_who_asks_for_chatter_gets_it():
    code = f"{FAKE}\nwith without_chatter():\n    {CHATTER}"
    assert run(code).stderr == ""
    assert "chatter" in run(code, TF_CPP_MIN_LOG_LEVEL="0").stderr
    logged = run(f"import logging, sys\nlogging.basicConfig(stream=sys.stdout, level='DEBUG')\n{code}")
    assert logged.stdout == "DEBUG:rlcore_tf:I0000 00:00:1.5 17 port.cc:153] chatter\n"


def test_without_a_stderr_it_starts_as_well():
    code = f"{FAKE}\nprint('fine')"
    closed = f"import os, subprocess, sys; os.close(2); sys.exit(subprocess.call([sys.executable, '-c', {code!r}]))"
    assert run(closed).stdout == "fine\n"


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
