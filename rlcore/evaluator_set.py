"""EvaluatorSet: the evaluators that optimizers drive, kept supplied with weights, progress and filters."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlcore.batch import MultiAgentBatch, concat_agents
from rlcore.crew import Call, Crew, StrictCrew
from rlcore.errors import OptimizerError, WorkerLost
from rlcore.evaluator_messages import Metrics, SampleInfo, Update
from rlcore.members import ROOM_S, Answer, Member, Patience, Watch
from rlcore.places import TRIES, BringUp
from rlcore.policy_evaluator import PolicyEvaluator
from rlcore.policy_graph import Progress, Weights
from rlcore.published import Published
from rlcore.runtime.base import Handle, Ref, Resources, Runtime
from rlcore.sample_products import Replica, SampleProduct
from rlcore.sample_reader import Round, SampleReader
from rlcore.sample_stream import Sample, SampleSource, SampleStream
from rlcore.sampling.policy_filters import get_statistics, set_statistics
from rlcore.stragglers import EVERYONE, RoundRule, StragglerCrew, StragglerReport, brought_up

#: What an evaluator asks for where it is a worker of its own.
EVALUATOR_RESOURCES = Resources(cpus=1.0)

#: Seconds that evaluators get to close their environments.
CLOSING_S = 2.0

#: Seconds after which an evaluator that has not answered counts as hanging.
TIMEOUT_S = 300.0


class EvaluatorSet:
    """The evaluators of one run, shared by its optimizers.

    ``builders`` make them, one each, in workers with ``resources``; without any, ``local`` samples itself. The set owns
    the statistics of the observation filters: what the evaluators have seen is merged in the order of the evaluators,
    and the result goes to all with the next broadcast, so that every evaluator normalises alike.

    An evaluator that is lost, raises, or has not answered for ``timeout_s`` seconds is replaced (:mod:`rlcore.places`
    says when not): by one with the weights, progress and filters of the others, random numbers of its own and new
    episodes. ``on_loss`` is told ``(index, cause)``. A round still has a sample of every evaluator, but for those that
    find no room to start for ``room_timeout_s`` seconds; ``on_vacancy`` is told ``(places, size)``, all that lack then,
    whenever those are others.

    ``rule`` says when a round is over that does not wait for the slowest (:mod:`rlcore.stragglers`). Their samples are
    in a later round, each once, with the version of the weights that acted.
    """

    def __init__(
        self,
        runtime: Runtime,
        local: PolicyEvaluator,
        builders: Sequence[Callable[[], PolicyEvaluator]] = (),
        *,
        resources: Resources = EVALUATOR_RESOURCES,
        timeout_s: float = TIMEOUT_S,
        room_timeout_s: float = ROOM_S,
        rule: RoundRule = EVERYONE,
        on_loss: Callable[[int, str], None] = lambda index, cause: None,
        on_vacancy: Callable[[Sequence[int], int], None] = lambda places, size: None,
        on_other_loss: Callable[[str, int, str], None] = lambda worker, index, cause: None,
    ) -> None:
        self._runtime = runtime
        self._patience = Patience(timeout_s, room_timeout_s)
        self._on_other_loss = on_other_loss
        self.local = local
        self.local_samples = not builders
        members = [Member(i, build, runtime.spawn(build, resources)) for i, build in enumerate(builders)]
        members = members or [Member(0, None, runtime.local(local))]
        self._crew = StragglerCrew(
            runtime, members, resources, self._bring_up, Watch(on_loss, on_vacancy), self._patience, rule=rule
        )
        self._report = StragglerReport([0] * len(members)) if rule.leaves_out else None
        self._readers: list[SampleReader] = []
        self._source: SampleSource | None = None
        self._published = Published()
        self._filters = copy.deepcopy(local.filters)
        #: What evaluators went on from, which new ones are sent too until the first update.
        self._begun_with: dict[int, list[tuple[str, Any]]] = {}
        self._for_newcomers: list[Callable[[Handle, int], Sequence[Ref]]] = []
        #: Environment steps sampled so far.
        self.env_steps = 0
        self._metrics = [Metrics() for _ in members]

    @property
    def handles(self) -> list[Handle]:
        """The evaluators as they are now; others, where some have been replaced, and fewer, where there is no room."""
        return self._crew.handles

    @property
    def by_place(self) -> dict[int, Handle]:
        """The same, by their index."""
        return self._crew.by_place

    @property
    def crew(self) -> Crew:
        """The places of the evaluators, and who fills them."""
        return self._crew

    @property
    def timeout_s(self) -> float:
        """Seconds after which an evaluator that has not answered counts as hanging."""
        return self._crew.timeout_s

    @property
    def waits_for_everyone(self) -> bool:
        """Whether a round has a sample of every evaluator that there is room for, however long that takes."""
        return self._report is None

    def reader(self) -> SampleReader:
        """A reader for one optimizer."""
        reader = SampleReader(self.sample_round)
        self._readers.append(reader)
        return reader

    @property
    def size(self) -> int:
        """How many evaluators there are to be."""
        return self._crew.size

    def slots(self) -> int:
        """How many environments each of them has; it waits for one that can say so."""
        return int(next(iter(self._crew.ask("slots").values())))

    def others(
        self,
        worker: str,
        builders: Sequence[Callable[[], Any]],
        needs: Resources,
        bring_up: BringUp,
        kind: type[StrictCrew] = StrictCrew,
        timeout_s: float | None = None,
    ) -> Crew:
        """Further workers of an optimizer, which are called ``worker``.

        Those that are lost are replaced and reported as evaluators are; what they raise ends the run
        (:class:`rlcore.crew.StrictCrew`). They have as long to answer as evaluators, or ``timeout_s``.
        """
        patience = self._patience if timeout_s is None else replace(self._patience, timeout_s=timeout_s)

        def lost(index: int, cause: str) -> None:
            self._on_other_loss(worker, index, cause)

        def vacant(places: Sequence[int], size: int) -> None:
            for index in places:
                lost(index, "there is no room for it")

        members = [Member(i, build, self._runtime.spawn(build, needs)) for i, build in enumerate(builders)]
        return kind(self._runtime, members, needs, bring_up, Watch(lost, vacant), patience, worker=worker)

    def stream(self, ahead: int, product: SampleProduct | None = None) -> SampleStream:
        """Samples as they come, for one optimizer, or in their place what evaluators make of them.

        ``OptimizerError`` where rounds are to leave out the slowest.
        """
        if self._report is not None:
            raise OptimizerError(
                "evaluators.sample_fraction and sample_timeout_s are for optimizers that go by rounds: this one waits "
                "for nobody anyway"
            )
        if self._source is None:
            self._source = SampleSource(self._runtime, self._crew, self.count)
        return self._source.stream(ahead, product)

    def sample_round(self) -> None:
        """Has every evaluator sample, unless it has not done yet, and hands a round of samples to every reader."""
        if self._source is not None:
            raise OptimizerError(
                "an optimizer that takes samples as they come cannot share evaluators with one that goes by rounds"
            )
        samples = []
        for handle, info, (batch,), index, late in self._crew.sample("sample_counted", returns=2):
            samples.append(Sample(handle, info, batch, index))
            self.count(index, info)
            if self._report is not None:
                self._report.note(index, sum(info.rows.values()), late > 0, self.version - info.version)
        for reader in self._readers:
            reader.deliver(samples)

    def fetch(self, samples: Round, policy_ids: Sequence[str]) -> MultiAgentBatch:
        """The samples of a round in this process as one batch, of the policies named.

        A sample that was lost after it was taken, with the machine that held it, is taken again.
        """
        try:
            batches = self._runtime.get([sample.batch for sample in samples])
        except WorkerLost:
            if not self._runtime.isolates:
                raise
            batches = [self._batch(sample) for sample in samples]
        return concat_agents(batches).select(policy_ids)

    def _batch(self, sample: Sample) -> MultiAgentBatch:
        """The sample of one evaluator, or as many new ones as are lost, up to a bound."""
        for _ in range(TRIES):
            try:
                found: MultiAgentBatch = self._runtime.get(sample.batch)
            except WorkerLost:
                sample = self.take_again(sample)
            else:
                return found
        found = self._runtime.get(sample.batch)
        return found

    def take_again(self, sample: Sample) -> Sample:
        """Another sample, from the same place if somebody is there, which counts instead of one that was lost."""
        return self._instead(sample, self._crew.sample_again(sample.index, "sample_counted", returns=2))

    def take_from_its_place(self, sample: Sample) -> Sample | None:
        """The same, but None where nobody is there any more: nobody else samples, and the lost one still counts."""
        answer = self._crew.sample_of(sample.index, "sample_counted", returns=2)
        return None if answer is None else self._instead(sample, answer)

    def _instead(self, sample: Sample, answer: Answer) -> Sample:
        handle, info, (batch,), index, _ = answer
        self.env_steps -= sample.info.env_steps
        self.count(index, info)
        return Sample(handle, info, batch, index)

    def count(self, index: int, info: SampleInfo) -> None:
        """Counts what the evaluator in that place has sampled, or played, as a part of the run."""
        self.env_steps += info.env_steps
        self._metrics[index].add(info.metrics)
        for policy_id, leaves in info.filters.items():
            for leaf, delta in leaves.items():
                self._filters[policy_id][leaf].apply(delta)

    def broadcast(self, weights: Mapping[str, Weights], progress: Mapping[str, Progress]) -> None:
        """Sends weights, put once, progress and filters to every evaluator, and to the local one.

        It waits for none of them: they have them before the next sample.
        """
        self._crew.look()
        update = self._runtime.put(self._new_update(weights, progress))
        self._note_update({*weights, *progress}, update)
        self._crew.tell("receive", update)
        if not self.local_samples:
            self.local.receive(self._runtime.get(update))

    def publish(self, weights: Ref, progress: Mapping[str, Progress]) -> tuple[Ref, ...]:
        """A new version: weights ``{policy_id: {name: array}}``, by reference, of the policies in ``progress``.

        They do not come into this process. ``refresh`` sends them to an evaluator; those that are new have them. Given
        is what ``receive`` of an evaluator takes, for whoever sends it along with other things.
        """
        return self._publish((weights,), progress, None)

    def publish_parts(self, parts: Sequence[Ref], progress: Mapping[str, Progress], replica: Replica) -> None:
        """The same, with weights that ``replica`` makes of ``parts`` in each evaluator."""
        self._publish(parts, progress, replica)

    def _publish(
        self, parts: Sequence[Ref], progress: Mapping[str, Progress], replica: Replica | None
    ) -> tuple[Ref, ...]:
        update = self._new_update({}, progress, replica)
        sent = self._runtime.put(update), *parts
        self._note_update(progress, *sent)
        if not self.local_samples:
            self.local.receive(update)
        return sent

    def refresh(self, index: int) -> None:
        """Sends what was published last to one evaluator, which has it before the samples that it is asked for next.

        What it has been sent before it is not sent again.
        """
        for update in self._published.lacking(index, self._crew.members[index].handle):
            self._crew.tell_one(index, "receive", *update)

    def filter_statistics(self) -> dict[str, dict[str, Any]]:
        """The merged statistics of all filters, by policy and leaf."""
        return get_statistics(self._filters)

    def refresh_filters(self, index: int) -> None:
        """Sends the statistics of filters alone to one evaluator, and to the local one: there are no new weights."""
        statistics = get_statistics(self._filters)
        self._crew.tell_one(index, "set_filters", statistics)
        if not self.local_samples:
            self.local.set_filters(statistics)

    def _new_update(
        self, weights: Mapping[str, Weights], progress: Mapping[str, Progress], replica: Replica | None = None
    ) -> Update:
        version = self._published.next_version()
        return Update(dict(weights), version, dict(progress), get_statistics(self._filters), replica)

    def _note_update(self, policies: Iterable[str], *update: Ref) -> None:
        self._published.note(policies, update)
        self._begun_with.clear()

    # -- calls of optimizers

    def tell(self, method: str, *args: Any) -> None:
        """Calls every evaluator and waits for none; one that fails in it is replaced before it is next asked."""
        self._crew.tell(method, *args)

    def expect(self, calls: Sequence[Call]) -> None:
        """As ``tell``, for calls that have been submitted already."""
        self._crew.expect(calls)

    def settle(self, calls: Sequence[Call]) -> list[Any]:
        """The values of calls that have been submitted, at most one an evaluator.

        ``rlcore.crew.LOST`` where the evaluator was lost, which is replaced then, or has no room to start. What a call
        raises, such as an error in the loss of a policy graph, is raised as itself: that is for the author of the graph
        to mend.
        """
        return self._crew.settle(calls)

    def give_up(self, handles: Sequence[Handle]) -> None:
        """Replaces evaluators that something has been waiting for in vain."""
        self._crew.give_up(handles)

    def result(self, ref: Ref) -> Any:
        """The value of a reference. ``WorkerLost`` also where it has not come in the time that evaluators have."""
        return self._crew.result(ref)

    def bring_up_with(self, calls: Callable[[Handle, int], Sequence[Ref]]) -> None:
        """From now on ``calls(handle, index)`` is what a new evaluator gets beside weights, progress and filters."""
        self._for_newcomers.append(calls)

    def _bring_up(self, handle: Handle, index: int, life: int) -> list[Ref]:
        told = [handle.submit(method, argument) for method, argument in self._begun_with.get(index, [])]
        told += [handle.submit("receive", *update) for update in self._published.for_newcomer(index, handle)]
        for calls in self._for_newcomers:
            told += calls(handle, index)
        told.append(handle.submit("begin_again", life))
        return told

    # -- state

    @property
    def version(self) -> int:
        """How often weights have been sent."""
        return self._published.version

    def staleness(self, info: SampleInfo, policy_ids: Sequence[str]) -> int:
        """How many versions of a policy have followed those that a sample was made with, of the policy with the most.

        It is not counted beyond :data:`rlcore.published.STALENESS_LIMIT`.
        """
        return self._published.staleness(info.version, policy_ids)

    def set_filters(self, statistics: Mapping[str, Mapping[str, Any]]) -> None:
        """Replaces the statistics of every evaluator's filters; those of rewards where they scale any."""
        set_statistics(self._filters, statistics)
        self.local.set_filters(statistics)
        states = self._runtime.put(statistics)
        self._begun_with = {i: [("set_filters", states)] for i in range(self._crew.size)}
        self.settle([(handle, handle.submit("set_filters", states)) for handle in self.handles])

    def set_graph_states(self, states: Mapping[str, dict[str, Any]]) -> None:
        """Makes every evaluator's graphs, and the local one's, what those are that ``states`` come from."""
        # Whoever is lost over it is replaced by one like the local one.
        if not self.local_samples:
            self.local.set_graph_states(states)
        sent = self._runtime.put(states)
        self.settle([(handle, handle.submit("set_graph_states", sent)) for handle in self.handles])

    def metrics(self) -> list[Metrics]:
        """What came with each evaluator's samples since the last call."""
        found, self._metrics = self._metrics, [Metrics() for _ in self._metrics]
        for own, missing in zip(found, self._crew.take_missing(), strict=True):
            own.missing_samples = missing
        return found

    def straggler_row(self) -> dict[str, Any]:
        """What leaving out the slowest has done since the last call, for the row of an iteration.

        ``{}`` where nobody is ever left out.
        """
        return {} if self._report is None else self._report.row(self._crew)

    def get_state(self) -> dict[str, Any]:
        """A tree from which ``set_state`` goes on exactly; samples that a round goes on without are taken again then.

        Of samples that a stream has in flight nothing is kept: whoever goes on from the state samples others.
        Whoever is not there has no state: its place begins anew, as one that is filled anew.
        """
        late = self._crew.begun_from()
        idle = self._crew.ask_idle("get_state")
        other = next(iter(idle.values()), None)
        states = idle | {i: brought_up(own, other, self._filters) for i, own in late.items() if other is not None}
        return {
            "version": self.version,
            "env_steps": self.env_steps,
            "evaluators": {str(i): states[i] for i in sorted(states)},
            "filters": get_statistics(self._filters),
            # Where a worker waits for room nobody has lived that life yet.
            "lives": [one.life + (one.index not in states and not one.vacant) for one in self._crew.members],
            "versions": self._published.get_versions(),
            **({} if self._report is None else {"rows": list(self._report.rows)}),
        }

    @staticmethod
    def unrestorable(state: Mapping[str, Any]) -> list[int]:
        """The evaluators in a state whose environments cannot be saved: their episodes begin anew."""
        return [int(i) for i, own in state["evaluators"].items() if own["env"] is None]

    def set_state(self, state: dict[str, Any]) -> dict[int, list[int]]:
        """Goes on from ``get_state``'s tree. With another number of evaluators, those without a state begin anew.

        Gives the slots whose environments could not be restored and begin anew, by evaluator.
        """
        self.env_steps = int(state["env_steps"])
        self._published.go_on(int(state["version"]), state.get("versions", {}))
        self._crew.forget()
        if self._report is not None:
            self._report.go_on(state.get("rows", []))
        self.set_filters(state["filters"])
        known = state["evaluators"]
        self._crew.lives = state["lives"]
        for i, life in enumerate(self._crew.lives):
            if str(i) in known:
                self._begun_with[i].append(("set_state", self._runtime.put(known[str(i)])))
            elif life:
                self._begun_with[i].append(("begin_again", life))
        calls = [(handle, *self._begun_with[i][-1]) for i, handle in self._crew.by_place.items()]
        self.settle([(handle, handle.submit(method, own)) for handle, method, own in calls if method != "set_filters"])
        metrics: dict[int, Metrics] = self._crew.ask_idle("metrics")
        return {i: own.restarts for i, own in metrics.items() if own.restarts and str(i) in known}

    def close(self) -> None:
        """Ends the evaluators, which get a moment to close their environments; may be called twice."""
        self._crew.end("close", CLOSING_S)
        if not self.local_samples:
            self.local.close()
