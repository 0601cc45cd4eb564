"""The parts of the engine by themselves: transaction, heap, static results, tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from support.build import START, cluster, config, gang, group, kind_of, node, nodes, pod, queue, schedule
from unisono.cluster.podclass import PodClass
from unisono.cluster.state import ClusterState
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Normalise, Purpose, RawScore, Reach, Reason, Veto
from unisono.engine.candidates.static_answers import collect
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugin_host.orders import Heap
from unisono.engine.plugins.registry import lookup_with
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.sub_groups import runs

PLAIN = config(("gang",), ("predicates", "nodeorder"))


def cycle_of(state: ClusterState, settings: SchedulerConfig = PLAIN, **plugins: type[Plugin]) -> Cycle:
    return Cycle(state.snapshot(), settings, START, 0, lookup_with(plugins))


def books(cycle: Cycle, job: JobState) -> Any:
    return (
        cycle.session.matrix.copy().tolist(),
        list(job.counts),
        job.allocated.tolist(),
        job.claimed.tolist(),
        job.queue.allocated.tolist(),
        job.queue.claimed.tolist(),
        job.pending_best_effort,
        dict(job.places),
        {column: list(held) for column, held in cycle.session.ports.items() if held},
        job.role_counts("w"),
    )


def test_rollback_restores_every_book() -> None:
    running = pod("j-r-0", "j", node="n000", cpu=1, role="w")
    tasks = [pod(f"j-w-{i}", "j", cpu=1, role="w", ports=[80]) for i in range(2)]
    cycle = cycle_of(cluster(nodes(3), group("j", 2, roles={"w": 1}), running, tasks, pod("j-b-0", "j")))
    job = cycle.session.job("ns/j")
    assert job is not None
    before = books(cycle, job)
    mark = cycle.transaction.checkpoint()
    pending = cycle.pending(job, best_effort=False)
    table = cycle.tables.of(pending[0].pod_class)
    assert cycle.transaction.place(job, pending, table)
    assert cycle.transaction.place(job, pending[1:], table)
    cycle.transaction.place_on(job, cycle.pending(job, best_effort=True)[0], 1, pipelined=True)
    cycle.transaction.evict(job, job.record.tasks["ns/j-r-0"], 0, "preempt")
    assert job.status(job.record.tasks["ns/j-r-0"]) is TaskStatus.RELEASING
    undone = cycle.transaction.rollback(mark)
    assert [p.status for p in undone][-1] is TaskStatus.RELEASING
    assert books(cycle, job) == before


def test_evictions_name_their_action_and_beneficiary() -> None:
    state = cluster(nodes(1), group("v", 1), pod("v-w-0", "v", node="n000", cpu=1), gang("j", 1))
    cycle = cycle_of(state)
    victim, actor = cycle.session.job("ns/v"), cycle.session.job("ns/j")
    assert victim is not None
    assert actor is not None
    cycle.transaction.evict(victim, victim.record.tasks["ns/v-w-0"], 0, "reclaim")
    cycle.commit(0, actor)
    cycle.write_out()
    (eviction,) = cycle.decisions.evictions
    assert (eviction.pod, eviction.node, eviction.reason, eviction.beneficiary) == ("v-w-0", "n000", "reclaim", "ns/j")


def test_tables_follow_what_others_place_and_take_back() -> None:
    cycle = cycle_of(cluster(nodes(2, cpu=4), gang("a", 2), gang("b", 1, cpu=4)), config(("gang",), ("predicates",)))
    a, b = cycle.session.job("ns/a"), cycle.session.job("ns/b")
    assert a is not None
    assert b is not None
    wide = cycle.pending(b, best_effort=False)[0]
    table = cycle.tables.of(wide.pod_class)
    assert table.best() == 0
    small = cycle.pending(a, best_effort=False)
    assert cycle.transaction.place(a, small, cycle.tables.of(small[0].pod_class)) == [0, 0]
    assert table.best() == 1
    cycle.transaction.rollback(0)
    assert table.best() == 0


def test_a_heap_reads_keys_again_when_an_item_is_put_back() -> None:
    share = {"a": 0, "b": 1}
    heap = Heap(lambda name: (share[name], name), ["a", "b"])
    first = heap.pop()
    share[first] = 5
    heap.push(first)
    assert [heap.pop(), heap.pop()] == ["b", "a"]


def test_a_volatile_heap_reads_all_keys_again() -> None:
    share = {"a": 0, "b": 1, "c": 2}
    heap = Heap(lambda name: (share[name], name), share, volatile=True)
    share.update(a=9, c=-1)
    assert [heap.pop() for _ in range(3)] == ["c", "b", "a"]


def test_a_volatile_heap_knows_who_leads_though_only_one_item_waits() -> None:
    share = {"a": 5, "b": 3}
    heap = Heap(lambda name: (share[name], name), share, volatile=True)
    served = heap.pop()
    assert (served, heap.leads(served)) == ("b", True)
    share.update(a=1, b=2)
    assert not heap.leads(served)


def test_runs_are_equal_tasks_in_a_row() -> None:
    pods = [
        pod("j-w-0", "j", cpu=1),
        pod("j-w-1", "j", cpu=1),
        pod("j-w-2", "j", cpu=2),
        pod("j-w-3", "j", cpu=1, role="m"),
        pod("j-w-4", "j", cpu=1, role="m", nominated="n000"),
        pod("j-w-5", "j", cpu=1, role="m"),
    ]
    state = cluster(pods)
    tasks = [state.tasks[f"ns/j-w-{i}"] for i in range(6)]
    assert [len(run) for run in runs(tasks)] == [2, 1, 1, 1, 1]


def test_reasons_of_a_plugin_add_up_to_the_first_that_nothing_resolves() -> None:
    soft, hard, late = Reason("soft"), Reason("hard", unresolvable=True), Reason("late")
    bits = np.zeros(3, dtype=np.uint64)
    reasons: list[Reason] = []
    everywhere = np.array([True, True, True])
    collect([Veto(everywhere, soft), Veto(np.array([False, True, True]), hard), Veto(everywhere, late)], bits, reasons)
    assert bits.tolist() == [0b101, 0b011, 0b011]
    collect([Veto(everywhere, Reason("next plug-in"))], bits, reasons)
    assert bits.tolist() == [0b101, 0b011, 0b011], "a node that one plug-in refused is not shown to the next"


class Counting(Plugin):
    """Notes on how many nodes its static hooks were asked."""

    name = "counting"
    asked: ClassVar[list[int]] = []
    table: ClassVar[Any] = None

    def static_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        if nodes.table is self.table:  # trials of suggestions look at clusters of their own
            self.asked.append(nodes.size)
        return [Veto(nodes.label_codes("bad") >= 0, Reason("bad"))]


def test_static_answers_are_kept_and_asked_again_for_changed_nodes_only() -> None:
    Counting.asked = []
    settings = config(("gang",), ("counting",))
    state = cluster(nodes(4, cpu=1), gang("j", 5))
    Counting.table = state.nodes
    plugins = {"counting": Counting}

    def reasons() -> Any:
        return schedule(state, settings, plugins=plugins).verdicts["ns/j"].reasons

    assert reasons() == {"Insufficient cpu": 4}
    assert reasons() == {"Insufficient cpu": 4}
    assert Counting.asked == [4]
    state.apply("MODIFIED", kind_of(node("n001")), node("n001", cpu=1, labels={"bad": "yes"}))
    assert reasons() == {"Insufficient cpu": 3, "bad": 1}
    assert Counting.asked == [4, 1]
    state.apply("ADDED", kind_of(node("n009")), node("n009", cpu=1))
    assert reasons() == {"Insufficient cpu": 4, "bad": 1}
    assert Counting.asked == [4, 1, 5]
    schedule(state, config(("gang",), ("counting", "nodeorder")), plugins=plugins)
    assert Counting.asked == [4, 1, 5, 5], "another configuration asks again"


class Preferring(Plugin):
    """Raw static points from a label, normalised over candidates."""

    name = "preferring"

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[RawScore]:
        raw = np.array([float(facts.labels.get("points", "0")) for facts in nodes.facts])
        return [RawScore(raw, 1.0, Normalise.MAX)]


class Packing(Plugin):
    """Dynamic points that grow with use."""

    name = "packing"

    def score(self, pod_class: PodClass, nodes: NodeView) -> Any:
        return nodes.used[0] * 0.06


def test_normalisation_follows_the_candidates_as_they_fill_up() -> None:
    """While n0 (10 points) is a candidate, n1 (5) scores 50; once n0 is full it scores 100."""
    state = cluster(
        node("n0", cpu=1, labels={"points": "10"}),
        node("n1", cpu=2, labels={"points": "5"}),
        node("n2", cpu=9, labels={"points": "1"}),
        pod("there", node="n2", cpu=1),
        gang("j", 3),
    )
    settings = config(("gang",), ("preferring", "packing"))
    decisions = schedule(state, settings, plugins={"preferring": Preferring, "packing": Packing})
    # n0: 100; then n1: 100 against n2: 20 + 60 = 80 (with stale maxima: 50 against 70)
    assert {b.pod: b.node for b in decisions.binds} == {"j-w-0": "n0", "j-w-1": "n1", "j-w-2": "n1"}


class Together(Plugin):
    """A score whose effect reaches the whole cluster: follow the last placement's zone."""

    name = "together"
    reach = Reach.CLUSTER
    pure = False

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.zone = -1

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        self.zone = int(self.session.nodes.label_codes("zone")[nodes[-1]])

    def open(self, session: Any) -> None:
        self.session = session

    def score(self, pod_class: PodClass, nodes: NodeView) -> Any:
        return np.where(nodes.label_codes("zone") == self.zone, 1.0, 0.0)


def test_a_placement_that_reaches_the_cluster_is_scored_everywhere() -> None:
    state = cluster(
        node("a", cpu=1, labels={"zone": "x"}),
        node("b", cpu=1, labels={"zone": "y"}),
        node("c", cpu=1, labels={"zone": "x"}),
        gang("j", 2),
    )
    decisions = schedule(state, config(("gang",), ("together",)), plugins={"together": Together})
    assert sorted(b.node for b in decisions.binds) == ["a", "c"]


class Only(Plugin):
    """Victims by a list of names."""

    name = "only"
    names: tuple[str, ...] = ()

    def victims(self, actor: JobState, task: Any, candidates: Sequence[Any], purpose: Purpose) -> Any:
        return np.array([candidate.name in self.names for candidate in candidates])


@pytest.mark.parametrize(
    ("tiers", "chosen"),
    [
        ([("ab",)], "ab"),
        ([("ab", "bc")], "b"),
        ([("ab", "c")], ""),
        ([("", "ab")], ""),
        ([("",), ("bc",)], "bc"),
        ([("ab", "c"), ("c",)], "c"),
    ],
)
def test_victims_are_intersected_within_a_tier_and_an_empty_tier_passes_on(
    tiers: list[tuple[str, ...]], chosen: str
) -> None:
    plugins = {
        f"only-{letters}": type("Named", (Only,), {"name": f"only-{letters}", "names": tuple(letters)})
        for tier in tiers
        for letters in tier
    }
    settings = config(*[[f"only-{letters}" for letters in tier] for tier in tiers])
    state = cluster(gang("j", 1), [pod(name, "v", node="n", cpu=1) for name in "abc"])
    cycle = cycle_of(state, settings, **plugins)
    job = cycle.session.job("ns/j")
    assert job is not None
    candidates = [state.tasks[f"ns/{name}"] for name in "abc"]
    mask = cycle.hooks.victims(job, None, candidates, Purpose.PREEMPT)
    assert "".join(task.name for task, yes in zip(candidates, mask, strict=True) if yes) == chosen


def test_jobs_of_unknown_queues_are_no_jobs_of_the_session() -> None:
    cycle = cycle_of(cluster(queue("q"), gang("a", 1, queue="q"), gang("b", 1, queue="gone"), pod("x", "nogroup")))
    assert [job.key for job in cycle.session.jobs] == ["ns/a"]
    assert [job.key for job in cycle.session.active] == ["ns/a"]
    assert cycle.session.job("ns/nogroup") is None
