"""Hooks: the events, who takes part, and what is refused."""

from __future__ import annotations

import inspect
import warnings

import cloudpickle
import pytest

from rlcore import registry
from rlcore.errors import BrokenPluginError, InvalidPluginError, UnknownPluginError
from rlcore.hooks import Events, Hooks, HookWarning, event_names, hookimpl, load_hooks

HOOKS = "rlcore.hooks"
EVENTS = "events: run_start, iteration, evaluation, checkpoint, worker_lost, places_vacant, run_end, episode_end"

LOGGER = """
    from rlcore.hooks import hookimpl
    seen = []

    @hookimpl
    def iteration(row):
        seen.append(row)
"""


class Recorder:
    def __init__(self) -> None:
        self.seen: list[object] = []

    @hookimpl
    def iteration(self, row):
        self.seen.append(("iteration", row))

    @hookimpl
    def run_end(self, status):
        self.seen.append(("run_end", status))


def test_every_event_has_a_line_of_documentation_that_names_its_arguments():
    assert event_names() == EVENTS.removeprefix("events: ").split(", ")
    for name in event_names():
        event = getattr(Events, name)
        assert event.__doc__.count("\n") == 0
        for argument in list(inspect.signature(event).parameters)[1:]:
            assert f"``{argument}``" in event.__doc__, (name, argument)


def test_every_event_can_be_called_and_implementations_may_take_fewer_arguments():
    recorder = Recorder()
    hooks = load_hooks([recorder], installed=False)
    hooks.call.run_start(config=None, out=None)
    hooks.call.iteration(row={"iteration": 1})
    hooks.call.evaluation(result={})
    hooks.call.checkpoint(path=None, iteration=1, best=True)
    hooks.call.worker_lost(index=0, cause="killed", worker="evaluator")
    hooks.call.episode_end(worker=0, episode=None)
    hooks.call.run_end(status="stopped", result={})
    assert recorder.seen == [("iteration", {"iteration": 1}), ("run_end", "stopped")]


def test_the_last_one_given_is_called_first():
    order = []

    class Named:
        def __init__(self, name):
            self.name = name

        def iteration(self, row):
            order.append(self.name)

    load_hooks([Named("a"), Named("b")], installed=False).call.iteration(row={})
    assert order == ["b", "a"]


def test_what_a_hook_of_the_program_raises_comes_out_with_a_note_that_names_it():
    class Stop:
        def iteration(self, row):
            raise ValueError("boom")

    with pytest.raises(ValueError, match=r"^boom") as error:
        load_hooks([Stop()], installed=False).call.iteration(row={})
    assert error.value.__notes__ == [f"raised by hook {registry.target_of(Stop)} in event 'iteration'"]


FAILING = """
    from rlcore.hooks import hookimpl

    @hookimpl
    def run_start(): raise SystemExit(3)

    @hookimpl
    def iteration(row): raise ValueError("none left")

    @hookimpl
    def episode_end(episode): raise KeyboardInterrupt
"""


def test_installed_hook_that_raises_is_a_warning_for_each_event_and_the_others_are_called(install):
    folder = install("bad", "3.0", groups={HOOKS: {"bad": "bad_hook"}}, modules={"bad_hook": FAILING})
    recorder = Recorder()
    hooks = load_hooks([recorder])
    with pytest.warns(HookWarning) as warned:
        for _ in range(3):
            hooks.call.run_start(config=None, out=None)
            hooks.call.iteration(row={})
    where = folder / "bad_hook.py"
    assert [str(each.message) for each in warned] == [
        f"hook 'bad' of bad 3.0 failed in event 'run_start' and the run goes on: SystemExit: 3 ({where}:5)",
        f"hook 'bad' of bad 3.0 failed in event 'iteration' and the run goes on: ValueError: none left ({where}:8)",
    ]
    assert len(recorder.seen) == 3
    with pytest.raises(KeyboardInterrupt):
        hooks.call.episode_end(worker=0, episode=None)


@pytest.mark.parametrize("name", ["bad", "bad@bad"])
def test_installed_hook_is_one_in_workers_too_and_where_it_was_asked_for_by_name(install, name):
    install("bad", "3.0", groups={HOOKS: {"bad": "bad_hook"}}, modules={"bad_hook": FAILING})
    with pytest.warns(HookWarning, match=r"^hook 'bad' of bad 3.0 failed in event 'iteration'"):
        load_hooks([name], installed=False).call.iteration(row={})


def test_hook_cannot_wrap_those_of_others():
    class Wrapper:
        @hookimpl(wrapper=True)
        def iteration(self, row):
            return (yield)

    with pytest.raises(InvalidPluginError, match=r"event 'iteration' cannot be wrapped"):
        Hooks().add(Wrapper())


def test_order_that_a_hook_asks_for_holds():
    order = []

    class Early:
        @hookimpl(tryfirst=True, specname="iteration")
        def mine(self):
            order.append("early")

    class Late:
        def iteration(self, row, note="of its own"):
            order.append(note)

    load_hooks([Early(), Late()], installed=False).call.iteration(row={})
    assert order == ["early", "of its own"]


def test_B167_one_failing_plugin_is_a_warning_with_its_name_and_stops_nobody(install):
    install("bad", "3.0", groups={HOOKS: {"bad": "bad_hook"}}, modules={"bad_hook": "import no_such_thing"})
    install("worse", "3.0", groups={HOOKS: {"worse": "worse_hook"}}, modules={"worse_hook": "x = 1"})
    install("logger", groups={HOOKS: {"log": "logger_hook"}}, modules={"logger_hook": LOGGER})
    with pytest.warns(HookWarning) as warned:
        hooks = load_hooks()
    hooks.call.iteration(row={"iteration": 1})
    assert load_module("logger_hook").seen == [{"iteration": 1}]
    assert [str(each.message) for each in warned] == [
        "going on without an installed hook plugin: hook 'bad' of bad 3.0 cannot be imported (bad_hook): "
        "ModuleNotFoundError: No module named 'no_such_thing'; install what provides 'no_such_thing'",
        "going on without an installed hook plugin: hook 'worse' of worse 3.0 implements no event; "
        f"mark its functions with rlcore.hooks.hookimpl\n{EVENTS}",
    ]


def test_failing_plugin_that_was_asked_for_by_name_is_an_error(install):
    install("bad", "3.0", groups={HOOKS: {"bad": "bad_hook"}}, modules={"bad_hook": "import no_such_thing"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(BrokenPluginError, match=r"^hook 'bad' of bad 3.0 cannot be imported"):
            load_hooks(["bad"])
    with pytest.raises(UnknownPluginError, match=r"unknown hook 'bat'; did you mean 'bad'"):
        load_hooks(["bat"], installed=False)


def test_plugin_that_is_installed_and_named_takes_part_once(install):
    install("logger", groups={HOOKS: {"log": "logger_hook"}}, modules={"logger_hook": LOGGER})
    load_hooks(["log", "log"]).call.iteration(row={})
    assert load_module("logger_hook").seen == [{}]


def test_two_packages_with_one_hook_name_both_take_part(install):
    install("one", groups={HOOKS: {"log": "one_hook"}}, modules={"one_hook": LOGGER})
    install("two", groups={HOOKS: {"log": "two_hook"}}, modules={"two_hook": LOGGER})
    load_hooks().call.iteration(row={})
    assert load_module("one_hook").seen == load_module("two_hook").seen == [{}]


def test_registered_hook_takes_part(install):
    seen = []

    @registry.register("hook", "mine")
    class Mine:
        def run_end(self, status):
            seen.append(status)

    load_hooks().call.run_end(status="stopped", result={})
    assert seen == ["stopped"]


def test_unknown_argument_is_an_error_at_registration():
    class Wrong:
        def iteration(self, rows): ...

    with pytest.raises(InvalidPluginError) as error:
        Hooks().add(Wrong())
    assert str(error.value) == (
        f"hook {registry.target_of(Wrong)}: event 'iteration' has no argument 'rows'; did you mean 'row'? (it has: row)"
    )


def test_catch_all_arguments_are_refused_because_they_would_stay_empty():
    class Wrong:
        def iteration(self, **arguments): ...

    with pytest.raises(InvalidPluginError, match=r"event 'iteration' has no argument 'arguments'"):
        Hooks().add(Wrong())


def test_unknown_event_is_an_error_at_registration():
    class Wrong:
        @hookimpl
        def run_started(self): ...

    with pytest.raises(InvalidPluginError) as error:
        Hooks().add(Wrong())
    where = registry.target_of(Wrong)
    assert str(error.value) == f"hook {where}: there is no event 'run_started'; did you mean 'run_start'?\n{EVENTS}"


def test_object_without_any_event_is_refused():
    with pytest.raises(InvalidPluginError, match=r"^hook builtins:object implements no event; mark its functions with"):
        Hooks().add(object())


def test_class_that_cannot_be_made_is_refused_by_name():
    class Needy:
        def __init__(self, path): ...
        def iteration(self, row): ...

    with pytest.raises(BrokenPluginError, match=r"^hook .*Needy cannot be made: TypeError: .*'path'"):
        Hooks().add(Needy)


def test_function_of_a_module_needs_the_mark(install):
    install("lib", modules={"lib_hooks": "def iteration(row): ...\n"})
    with pytest.raises(InvalidPluginError, match=r"implements no event"):
        Hooks().add(load_module("lib_hooks"))


def test_workers_get_what_listens_to_them(install):
    source = "from rlcore.hooks import hookimpl\nseen = []\n@hookimpl\ndef episode_end(episode): seen.append(episode)\n"
    install("worker", groups={HOOKS: {"count": "worker_hook"}}, modules={"worker_hook": source})
    install("logger", groups={HOOKS: {"log": "logger_hook"}}, modules={"logger_hook": LOGGER})

    class Local:
        def episode_end(self, worker, episode):
            self.last = worker, episode

    sent = cloudpickle.dumps(load_hooks([Recorder(), Local()]).for_workers())
    given = cloudpickle.loads(sent)
    assert given[0] == "count@worker" and len(given) == 2
    load_hooks(given, installed=False).call.episode_end(worker=2, episode="e")
    assert given[1].last == (2, "e")
    assert load_module("worker_hook").seen == ["e"]


def load_module(name):
    return registry.import_module(name, name)
