"""Trainer: from a config to its parts, and iteration after iteration to a trained policy. It owns no algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rlcore.checkpoint import save_tree
from rlcore.config import RunConfig
from rlcore.errors import ConfigError, RlcoreError, UserError
from rlcore.evaluation import EvaluationResult
from rlcore.evaluator_set import EvaluatorSet
from rlcore.hooks import load_hooks
from rlcore.interrupts import Interrupts
from rlcore.manifest import manifest_of
from rlcore.parts import build_parts
from rlcore.policy_graph import Weights
from rlcore.policy_optimizer import PolicyOptimizer
from rlcore.progress import Counters, EpisodeWindow, Iteration, make_row, measured
from rlcore.resolve import Resolved, resolve
from rlcore.restoring import Saved, read_saved, read_starts, read_to_take_over
from rlcore.run_output import RunOutput
from rlcore.saved_policies import policy_trees
from rlcore.saved_replay import mark_replay, restore_replay, with_replay
from rlcore.stepping import step_together
from rlcore.stopping import StopRule, how_it_ended
from rlcore.tree import copy_tree
from rlcore.weights_digest import weights_sha256

State = dict[str, Any]


class Trainer:
    """Trains the policies of one run.

    ::

        trainer = Trainer({"algorithm": "ppo", "env": "CartPole-v1", "stop": {"env_steps": 100_000}})
        result = trainer.train()                        # or row = trainer.step(), again and again
        trainer.evaluate()
        trainer.save("somewhere")
        trainer.close()                                 # or ``with Trainer(...) as trainer:``

    ``config`` is a mapping with the keys of a YAML config, or what ``resolve`` made of one. ``hooks`` are objects or
    names (:mod:`rlcore.hooks`). With ``out`` a run folder is written there. ``start_from`` is a checkpoint (or a run
    folder) whose weights and optimizer states a new run starts from.

    Raises ``UserError`` for whatever is wrong with the config or its parts, before anything is written, and for what
    is asked of it once it is closed.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | RunConfig | Resolved,
        *,
        hooks: Iterable[object] = (),
        out: Path | str | None = None,
        start_from: Path | str | None = None,
    ) -> None:
        run = config if isinstance(config, Resolved) else resolve(config)
        starts = read_starts(start_from, run) if start_from is not None else {}
        self.config = run.config
        self.provenance = run.provenance
        self._policies = run.policies
        self._trained = [policy_id for policy_id, settings in run.policies.items() if settings.trained]
        self._stop = StopRule(run.config.stop)
        self._hooks = load_hooks(hooks)
        self._parts = build_parts(run, self._hooks, starts)
        self.counters = Counters()
        self._window = EpisodeWindow()
        #: The last row; empty before the first.
        self.row: dict[str, Any] = {}
        #: Environments that could not be restored and began new episodes: ``{evaluator index: slots}``.
        self.restarts: dict[int, list[int]] = {}
        #: Whether there is something to end: a step was begun, and no result has been given since.
        self._running = False
        #: How a step failed, ``(status, reason)``, until the next one.
        self._failure: tuple[str, str | None] | None = None
        self._closed = False
        #: Whether a step is to end before it is over, as after Ctrl-C.
        self._is_cut_short: Callable[[], bool] = lambda: False
        self._clock = 0.0
        #: The state after the last iteration, where it is on no disk yet.
        self._last: State | None = None
        #: Whether that is to be found out when it is saved, because workers go on between the steps.
        self._last_is_now = False
        self._saved_sha256: str | None = None
        try:
            self._output = RunOutput.create(out, self.config, self._hooks)
        except BaseException:
            self._parts.close()
            raise

    @classmethod
    def restore(
        cls,
        path: Path | str,
        *,
        hooks: Iterable[object] = (),
        overrides: Mapping[str, Any] | None = None,
        trust: bool = False,
    ) -> Trainer:
        """The trainer of a saved run, which goes on exactly where it was saved.

        ``path`` is a run folder, which is then continued from its last checkpoint, or a checkpoint, which is continued
        without a folder. ``overrides`` are ``{dotted key: value}`` of ``stop env env_settings policy_of evaluators
        evaluation checkpoints runtime``. ``trust`` allows import paths in the checkpoint to be imported.

        Raises ``CheckpointError`` where it cannot be read or is not trusted, ``RunFolderError`` for a damaged folder.
        """
        saved = read_saved(path, overrides or {}, trust)
        trainer = cls(saved.run, hooks=hooks)
        try:
            with saved.reading():
                trainer._go_on(saved)
            trainer._stop.check()
        except BaseException:
            trainer.close()
            raise
        return trainer

    @classmethod
    def take_over(
        cls,
        path: Path | str,
        config: Mapping[str, Any] | RunConfig | Resolved,
        *,
        hooks: Iterable[object] = (),
        out: Path | str | None = None,
    ) -> Trainer:
        """A trainer with the settings ``config`` that goes on from all that another run had come to.

        ``path`` is the other's checkpoint or run folder: weights, optimizer states, counters, filters and replay
        memories are taken over; environments begin anew. ``out`` is a new run folder, or that of a run which gives up
        its own course: its rows up to there stay, and its last checkpoint is what was taken over.

        Raises ``CheckpointError`` where ``path`` cannot be read, ``ConfigError`` where its state would not fit.
        """
        run = config if isinstance(config, Resolved) else resolve(config)
        saved = read_to_take_over(path, run)
        trainer = cls(run, hooks=hooks)
        try:
            with saved.reading():
                trainer._go_on(saved)
            trainer._output = RunOutput.take_over(out, trainer.counters.iteration, run.config, trainer._hooks)
            trainer._last = trainer._state()
            trainer._save_last()
        except BaseException:
            trainer.close()
            raise
        return trainer

    @classmethod
    def remote(
        cls,
        config: Mapping[str, Any] | RunConfig | Resolved,
        *,
        hooks: Iterable[object] = (),
        out: Path | str | None = None,
        start_from: Path | str | None = None,
    ) -> Any:
        """The same thing as a Ray actor: its handle, whose methods are called as ``handle.step.remote()``.

        It can have evaluators of its own (``runtime: ray``), which end with it. Paths are those of the machine that it
        runs on. Where this process is not connected to Ray, a Ray of its own is started until it ends.
        """
        from rlcore.runtime.ray.remote import remote_object

        named = {"hooks": tuple(hooks), "out": out, "start_from": start_from}
        return remote_object(cls, (config,), named)

    @property
    def optimizers(self) -> tuple[PolicyOptimizer, ...]:
        """The optimizers, each with the policies that it trains."""
        return tuple(self._parts.optimizers)

    @property
    def evaluators(self) -> EvaluatorSet:
        """The evaluators that collect experience."""
        return self._parts.evaluators

    # -- training

    def train(self) -> dict[str, Any]:
        """Trains until a stop key is reached or Ctrl-C is pressed; returns the result.

        The result has the keys of the last row, ``status`` (``stopped``, ``interrupted``, ``failed``, or ``closed``
        after single steps), ``stop_reason`` and ``weights_sha256``. A second Ctrl-C raises ``KeyboardInterrupt`` at
        once. A stop key that no row has is a ``ConfigError`` as soon as that is certain. Where it ends so in its first
        iteration, before there is anything to go on from, a new run folder is removed.
        """
        self._check_open()
        with Interrupts() as interrupts:
            self._is_cut_short = lambda: interrupts.requested
            try:
                self._begin()
                while (reached := self._stop.reached(self.row)) is None and not interrupts.requested:
                    self.step()
                    self._check_stop_keys()
                self._save_last()
            except KeyboardInterrupt:
                self._discard_unless(self.counters.iteration > 0)
                self._finish("interrupted", None)
                raise
            except BaseException as error:
                self._end(error)
                raise
            finally:
                self._is_cut_short = lambda: False
        return self._finish("stopped" if reached is not None else "interrupted", reached)

    def step(self) -> dict[str, Any]:
        """One iteration: every optimizer takes a step, then what is due is evaluated, recorded and saved."""
        self._check_open()
        self._failure = None
        try:
            self._begin()
            return self._iterate()
        except BaseException as error:
            self._failure = how_it_ended(error)
            raise

    def _iterate(self) -> dict[str, Any]:
        now = self._parts.runtime.now
        started, sampled = now(), self.evaluators.env_steps
        results = step_together(self.optimizers, self._is_cut_short)
        metrics = self.evaluators.metrics()
        episodes = [(i, episode) for i, own in enumerate(metrics) for episode in own.episodes]
        trained = now()
        self.counters.add(results, metrics, self.evaluators.env_steps - sampled)
        self._window.add_representative(episodes, [optimizer.representative for optimizer in self.optimizers])
        evaluation = self._evaluate_if_due()
        evaluated = now()
        self._advance_clock()
        seconds = trained - started, evaluated - trained
        iteration = Iteration(results, len(episodes), evaluation, *seconds)
        row = make_row(self.counters, self._window, iteration, self._trained) | self.evaluators.straggler_row()
        self._stop.note(row, complete=measured(results).issuperset(self._trained))
        self._record(row)
        return row

    def _begin(self) -> None:
        """What happens once, before the first step of this process."""
        if self._running:
            return
        self._running = True
        self._clock = self._parts.runtime.now()
        self._output.begin()
        if self._saved_sha256 is None:
            # A run that goes on has a checkpoint of where it is.
            self._remember()
        self._hooks.call.run_start(config=self.config, out=self._output.path)

    def _advance_clock(self) -> None:
        before, self._clock = self._clock, self._parts.runtime.now()
        self.counters.wall_s += self._clock - before

    def _record(self, row: dict[str, Any]) -> None:
        """The row is written, and a checkpoint where one is due; then the hooks, which may fail, are told."""
        self.row = row
        self._output.append(row)
        if self._output.checkpoint_is_due(self.counters.iteration, self._score(), row["evaluation_episodes"] > 0):
            self._last = self._state()
            self._save_last()
        else:
            self._remember()
        self._hooks.call.iteration(row=row)

    def _score(self) -> float | None:
        """By what the best checkpoint is chosen: the evaluation where there is one, else the training returns."""
        evaluated = self.config.evaluation.every_env_steps is not None
        score: float | None = self.row["evaluation_return_mean" if evaluated else "episode_return_mean"]
        return score

    def stop_reached(self) -> str | None:
        """The stop key that the last row has reached, as ``key=value``; None where there is more to train."""
        return self._stop.reached(self.row)

    # -- evaluation

    def evaluate(self, episodes: int | None = None) -> EvaluationResult:
        """Plays exactly ``episodes`` episodes (the config's number) with the policies as they are now.

        In environments of its own, with deterministic actions and the filters as they stand. Training is not affected,
        and asking again for the same weights gives the same result.
        """
        self._check_open()
        return self._evaluate(episodes, None)

    def _evaluate(self, episodes: int | None, film: Path | None) -> EvaluationResult:
        parts = self._parts
        result = parts.evaluation.run(
            self.counters.evaluations,
            episodes if episodes is not None else self.config.evaluation.episodes,
            self.weights(),
            parts.evaluators.version,
            parts.evaluators.local.filter_statistics(),
            film,
        )
        self._hooks.call.evaluation(result={**result.to_tree(), "env_steps": self.counters.env_steps})
        return result

    def _evaluate_if_due(self) -> EvaluationResult | None:
        every, env_steps = self.config.evaluation.every_env_steps, self.counters.env_steps
        if every is None or env_steps // every == self.counters.evaluated_at // every:
            return None
        result = self._evaluate(None, self._output.film_folder(self.counters.evaluations))
        self.counters.evaluations += 1
        self.counters.evaluated_at = env_steps
        return result

    # -- what the run has learnt

    def weights(self) -> dict[str, Weights]:
        """``{policy_id: {name: array}}`` as they are now, of trained policies and others."""
        weights = self.evaluators.local.get_weights()
        for optimizer in self.optimizers:
            weights |= optimizer.get_weights()
        return {policy_id: weights[policy_id] for policy_id in self._policies}

    def weights_sha256(self) -> str:
        """A digest of the weights: equal where training was equal."""
        return weights_sha256(self.weights())

    # -- saving and restoring

    def save(self, path: Path | str) -> Path:
        """Writes a checkpoint into the folder ``path``; ``CheckpointError`` where that is not possible."""
        self._check_open()
        state = self._state()
        save_tree(path, self._with_replay(state), self._manifest(state) | {"iteration": self.counters.iteration})
        return Path(path)

    def checkpoint(self) -> None:
        """Writes the checkpoint of the last iteration into the run folder, unless it is there or there is no folder."""
        self._check_open()
        self._save_last()

    def _state(self) -> State:
        """What training goes on from, as a tree; the optimizers' part may change with the next step.

        Replay memories are marked: ``_with_replay`` adds what they are now.
        """
        mark_replay(self.optimizers)
        graphs = {name: state for optimizer in self.optimizers for name, state in optimizer.graph_states().items()}
        # Of trained graphs the weights are in the state.
        weights = self.weights() if set(self._policies) - set(graphs) else {n: graphs[n]["weights"] for n in graphs}
        return {
            "counters": self.counters.get_state(),
            "window": self._window.get_state(),
            "row": dict(self.row),
            "stop": self._stop.get_state(),
            "optimizers": {str(i): optimizer.get_learning_state() for i, optimizer in enumerate(self.optimizers)},
            "evaluators": self.evaluators.get_state(),
            "policies": policy_trees(weights, graphs, self.evaluators.local.filters),
        }

    def _with_replay(self, state: State) -> State:
        return with_replay(state, self.optimizers) if self.config.checkpoints.replay else state

    def _manifest(self, state: State) -> dict[str, Any]:
        return manifest_of(self.config, self._policies, self._parts, state)

    def _go_on(self, saved: Saved) -> None:
        """Becomes the trainer that was saved, and continues its folder."""
        state, evaluators = saved.state, self.evaluators
        self.counters.set_state(state["counters"])
        self._window.set_state(state["window"])
        self.row = state["row"]
        self._stop.set_state(state["stop"])
        for i, optimizer in enumerate(self.optimizers):
            optimizer.set_state(state["optimizers"][str(i)])
        restore_replay(self.optimizers, state, f"checkpoint {saved.folder}")
        self.restarts = evaluators.set_state(saved.evaluators_state())
        if saved.evaluators_changed:
            evaluators.broadcast(self.weights(), {})
        if saved.run_folder is not None:
            self._output = RunOutput.reopen(saved.run_folder, self.counters.iteration, self.config, self._hooks)
            self._saved_sha256 = self.weights_sha256()

    def _remember(self) -> None:
        """Keeps the state after an iteration: a failure in the next one would leave something in between."""
        if self._output.path is None:
            return
        if any(optimizer.asynchronous for optimizer in self.optimizers):
            self._last_is_now = True
            return
        # What evaluators give has crossed the runtime and is a copy already.
        self._last = {name: part if name == "evaluators" else copy_tree(part) for name, part in self._state().items()}

    def _save_last(self) -> None:
        """Writes the checkpoint of the last iteration, unless it is there."""
        if self._last is None and self._last_is_now:
            self._last = self._state()
        if self._last is None:
            return
        manifest = self._manifest(self._last)
        score = self._score() if self.row else None
        self._output.checkpoint(self._last["counters"]["iteration"], self._with_replay(self._last), manifest, score)
        self._saved_sha256 = manifest["weights_sha256"]
        self._forget_last()

    def _forget_last(self) -> None:
        self._last, self._last_is_now = None, False

    # -- the end

    def _end(self, error: BaseException | None) -> None:
        """Ends a run with a checkpoint of its last iteration; where that fails as well, ``error`` is told of it."""
        if error is not None:
            status, reason = how_it_ended(error)
        elif self._failure is not None:
            status, reason = self._failure
        else:
            reason = self._stop.reached(self.row)
            status = "closed" if reason is None else "stopped"
        # Before the first iteration there may be not even a state to begin again from.
        self._discard_unless(self.counters.iteration > 0 or self._last is not None or self._last_is_now)
        try:
            self._save_last()
        except (RlcoreError, OSError) as also:
            if error is None:
                self._finish(status, reason)
                raise
            error.add_note(f"the checkpoint of the last iteration could not be written: {also}")
        self._finish(status, reason)

    def _check_stop_keys(self) -> None:
        try:
            self._stop.check()
        except ConfigError:
            # The statistics show with the first row; a folder with a key that no row has is of no use.
            self._discard_unless(self.counters.iteration > 1)
            raise

    def _discard_unless(self, useful: bool) -> None:
        if not useful:
            self._output.discard()
            self._forget_last()

    def _check_open(self) -> None:
        if self._closed:
            raise UserError("the trainer is closed")

    def _finish(self, status: str, reason: str | None) -> dict[str, Any]:
        self._running = False
        # With a folder, those of the last checkpoint: after a failure the weights at hand may be half updated.
        sha256 = self._saved_sha256 if self._output.path is not None else self.weights_sha256()
        result = self._output.finish({**self.row, "status": status, "stop_reason": reason, "weights_sha256": sha256})
        self._hooks.call.run_end(status=status, result=result)
        return result

    def close(self) -> None:
        """Ends the run where single steps have begun it, then evaluators and environments; may be called twice."""
        self._close(None)

    def _close(self, error: BaseException | None) -> None:
        self._closed = True
        try:
            if self._running:
                self._end(error)
        finally:
            self._output.close()
            self._parts.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(error)
