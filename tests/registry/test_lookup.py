"""Names to classes: what is found, and every error in full."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rlcore import registry
from rlcore.errors import AmbiguousPluginError, BrokenPluginError, InvalidPluginError, UnknownPluginError
from rlcore.lookup_errors import closest, did_you_mean
from rlcore.registry import Plugin, available, find, load

RUNTIMES, OPTIMIZERS, GRAPHS = "rlcore.runtimes", "rlcore.optimizers", "rlcore.policy_graphs"


def test_listing_names_package_and_version_and_imports_nothing(install):
    install("slow-runtimes", "2.1", groups={RUNTIMES: {"slow": "slow_runtimes:Slow"}})
    install("more", "0.3", groups={RUNTIMES: {"fast": "more.fast:Fast"}, OPTIMIZERS: {"apex": "more:Apex"}})
    slow = Plugin("runtime", "slow", "slow_runtimes:Slow", "slow-runtimes", "2.1")
    fast = Plugin("runtime", "fast", "more.fast:Fast", "more", "0.3")
    assert available("runtime") == [fast, slow]
    assert available() == [Plugin("optimizer", "apex", "more:Apex", "more", "0.3"), fast, slow]
    assert not {"slow_runtimes", "more"} & set(sys.modules)


def test_load_gives_the_class_and_imports_no_other_plugin(install, runtime_source):
    install(
        "slow-runtimes", groups={RUNTIMES: {"slow": "slow_runtimes:Slow"}}, modules={"slow_runtimes": runtime_source}
    )
    install("other", groups={RUNTIMES: {"other": "other_runtimes:Slow"}}, modules={"other_runtimes": runtime_source})
    slow = load("runtime", "slow")
    assert slow is sys.modules["slow_runtimes"].Slow
    assert "other_runtimes" not in sys.modules


def test_unknown_name_says_the_closest_what_is_installed_and_from_where(install):
    install("rlcore-async", "0.1.0", groups={OPTIMIZERS: {"async_samples": "a:A", "sharded_ps": "a:B"}})
    install("other", "2.0", groups={OPTIMIZERS: {"slow": "b:B"}})
    with pytest.raises(UnknownPluginError) as error:
        load("optimizer", "asink_samples")
    assert str(error.value) == (
        "unknown optimizer 'asink_samples'; did you mean 'async_samples'?\n"
        "installed: async_samples, sharded_ps (rlcore-async 0.1.0); slow (other 2.0)"
    )


def test_unknown_name_of_our_own_package_says_what_to_install(install):
    install("other", "2.0", groups={OPTIMIZERS: {"slow": "b:B"}})
    with pytest.raises(UnknownPluginError) as error:
        load("optimizer", "multi_gpu")
    assert str(error.value) == (
        "unknown optimizer 'multi_gpu'\ninstalled: slow (other 2.0)\nrlcore-sync provides it: pip install rlcore-sync"
    )


def test_misspelt_name_of_our_own_package_says_what_to_install(install):
    with pytest.raises(UnknownPluginError) as error:
        load("optimizer", "multigpu")
    assert str(error.value) == (
        "unknown optimizer 'multigpu'\ninstalled: none\nrlcore-sync provides 'multi_gpu': pip install rlcore-sync"
    )


def test_the_name_that_was_refused_is_not_suggested():
    assert closest("slow", ["slow", "fast"]) is None
    assert did_you_mean("slow", ["slow", "slower"]) == "; did you mean 'slower'?"


def test_name_in_another_case_is_suggested_and_not_taken(install):
    install("other", "2.0", groups={OPTIMIZERS: {"slow": "b:B"}})
    with pytest.raises(UnknownPluginError, match=r"unknown optimizer 'SLOW'; did you mean 'slow'"):
        load("optimizer", "SLOW")


def test_policy_graph_without_its_framework_is_suggested_with_it(install):
    install("other", "2.0", groups={GRAPHS: {"jax.muzero": "b:B"}})
    with pytest.raises(UnknownPluginError, match=r"unknown policy graph 'muzero'; did you mean 'jax.muzero'"):
        load("policy_graph", "muzero")


def test_unknown_kind_names_the_kinds():
    with pytest.raises(UnknownPluginError) as error:
        load("optimiser", "x")
    assert str(error.value) == (
        "unknown kind of plugin 'optimiser'; did you mean 'optimizer'?\n"
        "kinds: policy_graph, env, optimizer, algorithm, runtime, hook, command"
    )


def test_B167_broken_plugin_breaks_only_who_asks_for_it(install, runtime_source):
    install(
        "bad", "3.0", groups={RUNTIMES: {"bad": "bad_runtime:Bad"}}, modules={"bad_runtime": "import no_such_thing"}
    )
    install("good", groups={RUNTIMES: {"slow": "good_runtime:Slow"}}, modules={"good_runtime": runtime_source})
    assert [plugin.name for plugin in available("runtime")] == ["bad", "slow"]
    assert load("runtime", "slow").__name__ == "Slow"
    with pytest.raises(BrokenPluginError) as error:
        load("runtime", "bad")
    assert str(error.value) == (
        "runtime 'bad' of bad 3.0 cannot be imported (bad_runtime:Bad): "
        "ModuleNotFoundError: No module named 'no_such_thing'; install what provides 'no_such_thing'"
    )
    assert isinstance(error.value.__cause__, ModuleNotFoundError)


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("no_such_thing", "'no_such_thing'; pip install No.Such-Thing"),
        ("extra_thing.deep", "'extra_thing'; pip install extra-thing"),
        ("other_thing", "'other_thing'; install what provides 'other_thing'"),
        # What is lacking here is no package.
        ("bad_runtime.deep", "'bad_runtime.deep'; 'bad_runtime' is not a package"),
        ("json.deep", "'json.deep'"),
    ],
)
def test_a_missing_package_is_named_as_the_plugins_metadata_do(install, module, hint):
    install(
        "bad",
        groups={RUNTIMES: {"bad": "bad_runtime:Bad"}},
        modules={"bad_runtime": f"import {module}"},
        metadata={"Requires-Dist": "No.Such-Thing[all]>=2", "Requires-dist": "extra-thing; extra == 'more'"},
    )
    with pytest.raises(BrokenPluginError) as error:
        load("runtime", "bad")
    assert str(error.value).endswith(f"ModuleNotFoundError: No module named {hint}")


def test_a_plugin_whose_own_module_is_gone_names_no_other_package(install):
    install("bad", groups={RUNTIMES: {"bad": "gone_runtime:Bad"}})
    with pytest.raises(BrokenPluginError, match=r"No module named 'gone_runtime'$"):
        load("runtime", "bad")


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("raise AssertionError('no')", "AssertionError: no"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("x = 1", "AttributeError: module 'bad_runtime' has no attribute 'Bad'"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_every_way_to_fail_an_import_is_a_broken_plugin(install, source, cause):
    install("bad", "3.0", groups={RUNTIMES: {"bad": "bad_runtime:Bad"}}, modules={"bad_runtime": source})
    with pytest.raises(BrokenPluginError) as error:
        load("runtime", "bad")
    assert cause in str(error.value)
    assert error.value.__cause__ is not None


def test_B168_two_packages_with_one_name(install):
    install("aaa", "1.0", groups={OPTIMIZERS: {"apex": "aaa:Apex", "between": "aaa:Between"}})
    install("Bbb.Pkg", "2.0", groups={OPTIMIZERS: {"apex": "bbb:Apex"}})
    with pytest.raises(AmbiguousPluginError) as error:
        load("optimizer", "apex")
    assert str(error.value) == (
        "optimizer 'apex' is provided by Bbb.Pkg 2.0 (bbb:Apex) and aaa 1.0 (aaa:Apex); "
        "ask for 'apex@Bbb.Pkg' or 'apex@aaa'"
    )
    assert find("optimizer", "apex@aaa").target == "aaa:Apex"
    assert find("optimizer", "apex@bbb-pkg").target == "bbb:Apex"


def test_name_at_a_package_that_does_not_provide_it(install):
    install("aaa", "1.0", groups={OPTIMIZERS: {"apex": "aaa:Apex"}})
    with pytest.raises(UnknownPluginError) as error:
        load("optimizer", "apex@bbb")
    assert str(error.value) == "'bbb' provides no optimizer 'apex'; aaa 1.0 does"
    install("ccc", "2.0", groups={OPTIMIZERS: {"apex": "ccc:Apex"}})
    with pytest.raises(UnknownPluginError, match=r"; aaa 1\.0 and ccc 2\.0 do$"):
        load("optimizer", "apex@bbb")
    with pytest.raises(UnknownPluginError, match=r"unknown optimizer 'nope@bbb'\n"):
        load("optimizer", "nope@bbb")


def test_two_entries_of_one_package_are_told_apart_by_nobody(install):
    folder = install("aaa", "1.0")
    next(folder.glob("*.dist-info/entry_points.txt")).write_text(f"[{OPTIMIZERS}]\napex = a:A\napex = a:B\n")
    with pytest.raises(AmbiguousPluginError) as error:
        load("optimizer", "apex")
    assert str(error.value) == (
        "optimizer 'apex' is provided by aaa 1.0 (a:A) and aaa 1.0 (a:B); aaa has to give them different names"
    )


def test_package_without_metadata_is_listed(install):
    folder = install("aaa", "1.0", groups={OPTIMIZERS: {"apex": "aaa:Apex"}})
    next(folder.glob("*.dist-info/METADATA")).unlink()
    assert [plugin.source for plugin in available("optimizer")] == ["a package without metadata ?"]


def test_plugin_of_the_wrong_kind_is_refused_before_it_is_called(install):
    source = """
        class Plain:
            def __init__(self): raise RuntimeError("called")
        def build(): raise RuntimeError("called")
        thing = 3
    """
    targets = {"plain": "wrong:Plain", "build": "wrong:build", "thing": "wrong:thing"}
    install("wrong", "1.0", groups={RUNTIMES: targets}, modules={"wrong": source})
    wanted = "not a subclass of rlcore.runtime.base.Runtime"
    for name, given in {
        "plain": "the class wrong.Plain",
        "build": "the function wrong.build",
        "thing": "of type int",
    }.items():
        with pytest.raises(InvalidPluginError) as error:
            load("runtime", name)
        assert str(error.value) == f"runtime '{name}' of wrong 1.0 is {given}, {wanted}"


def test_class_that_leaves_methods_unwritten_is_refused(install, runtime_source):
    install("half", "1.0", groups={RUNTIMES: {"half": "half:Half"}}, modules={"half": runtime_source})
    with pytest.raises(InvalidPluginError) as error:
        load("runtime", "half")
    assert str(error.value) == (
        "runtime 'half' of half 1.0 is incomplete: "
        "Half does not define capacity, child, close, get, kill, now, reduce, spawn, wait"
    )


def test_import_path_is_checked_like_a_plugin(install, runtime_source):
    install("lib", modules={"lib": runtime_source + "\n    class Outer:\n        Inner = Slow\n"})
    assert load("runtime", "lib:Slow") is sys.modules["lib"].Slow
    assert load("runtime", "lib:Outer.Inner") is sys.modules["lib"].Slow
    with pytest.raises(InvalidPluginError, match=r"^runtime 'lib:Outer' is the class lib\.Outer, not a subclass of"):
        load("runtime", "lib:Outer")


def test_import_paths_that_lead_nowhere(install, runtime_source):
    install("lib", modules={"lib": runtime_source, "failing": "import no_such_thing"})
    for path, message in {
        "lib:Slov": "'lib:Slov': lib has no 'Slov'; did you mean 'Slow'?",
        "nope.deep:X": "'nope.deep:X': there is no module 'nope' on the Python path",
        "lib.deep:X": "'lib.deep:X': there is no module 'lib.deep' on the Python path",
        "lib:": "'lib:' is no import path of the form package.module:Class",
        "os; x:y": "'os; x:y' is no import path of the form package.module:Class",
    }.items():
        with pytest.raises(UnknownPluginError) as unknown:
            load("runtime", path)
        assert str(unknown.value) == message
    with pytest.raises(BrokenPluginError) as error:
        load("runtime", "failing:X")
    assert str(error.value) == (
        "'failing:X': importing failing fails: ModuleNotFoundError: No module named 'no_such_thing'"
    )
    assert isinstance(error.value.__cause__, ModuleNotFoundError)


def test_freshly_changed_metadata_is_seen_and_nothing_is_cached_on_disk(install, runtime_source, tmp_path):
    folder = install("lib", groups={RUNTIMES: {"old": "lib:Slow"}}, modules={"lib": runtime_source})
    load("runtime", "old")
    entry_points = next(folder.glob("*.dist-info/entry_points.txt"))
    times = entry_points.stat()
    entry_points.write_text(f"[{RUNTIMES}]\nnew = lib:Slow\n")
    # An editable installation repeated within the same minute, as far as a cache that rounds times can see.
    os.utime(entry_points, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load("runtime", "new").__name__ == "Slow"
    with pytest.raises(UnknownPluginError):
        load("runtime", "old")
    assert not (tmp_path / "cache").exists()


def test_package_installed_into_a_known_folder_is_found(install, runtime_source):
    folder = install("lib", modules={"lib": runtime_source})
    load("runtime", "lib:Slow")
    info = folder / "late-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{RUNTIMES}]\nlate = late_module:Late\n")
    (folder / "late_module.py").write_text("from lib import Slow as Late")
    assert load("runtime", "late").__name__ == "Slow"


def test_framework_left_out_is_the_preferred_one_installed(install):
    assert registry.frameworks("ppo") == []
    with pytest.raises(
        UnknownPluginError, match=r"unknown policy graph 'torch.ppo'\n.*\nrlcore-torch provides it: pip"
    ):
        registry.graph_name("ppo")
    install("rlcore-jax", groups={GRAPHS: {"jax.ppo": "j:P", "jax.deep.ppo": "j:D"}})
    assert registry.graph_name("ppo") == "jax.ppo"
    install("rlcore-tf", groups={GRAPHS: {"tf.ppo": "t:P"}})
    assert registry.graph_name("ppo") == "tf.ppo"
    install("rlcore-torch", groups={GRAPHS: {"torch.ppo": "t:P", "torch.pg": "t:G"}})
    assert registry.frameworks("ppo") == ["torch", "tf", "jax"]
    assert registry.graph_name("ppo") == "torch.ppo"
    assert registry.graph_name("ppo", "tf") == "tf.ppo"
    with pytest.raises(UnknownPluginError, match=r"^framework 'tf' has no policy graph 'pg' \(it has: ppo\)\n'pg' "):
        registry.graph_name("pg", "tf")


def test_importing_the_registry_loads_no_framework_and_no_plugin():
    program = (
        "import sys, rlcore.registry, rlcore.envs, rlcore.hooks; rlcore.registry.available();"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " ('torch', 'tensorflow', 'ray', 'matplotlib') or name.startswith('rlcore_')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
