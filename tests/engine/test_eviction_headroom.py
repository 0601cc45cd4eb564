"""eviction-guard.headroom: what jobs of low rank leave free, who need not, and what it does for the others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from eviction_world import Plane, job_of, running_pods, with_guard
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from support.build import bound_per_job, cluster, flatten, gang, group, nodes, priority_class, schedule
from support.examples import examples
from unisono.api.base import Object
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.eviction.search import Evictions
from unisono.engine.plugins.registry import create
from unisono.engine.verdict import Cause
from unisono.errors import ConfigError

RANKS = [priority_class("low", 0), priority_class("mid", 10), priority_class("high", 100)]
QUARTER = "{eviction-guard.headroom: 0.25, eviction-guard.headroom.priorityClasses: {high: 0}}"
EIGHT = nodes(2, cpu=4)
"""Two of their eight CPUs are the quarter that stays free."""


def keeping(arguments: str = QUARTER, actions: str = "enqueue, allocate, preempt") -> SchedulerConfig:
    """The configuration of `docs/eviction.md` with these arguments."""
    return with_guard(actions, arguments, ("priority", "gang"), ("predicates", "nodeorder", "binpack"))


def singles(number: int, rank: str, **options: Any) -> list[Any]:
    return [gang(f"{rank}{at}", 1, priority_class=rank, created=at, **options) for at in range(number)]


def held(name: str, where: list[str], rank: str = "low", minimum: int = 1, **options: Any) -> list[Any]:
    return [group(name, minimum, phase="Running", priority_class=rank), *running_pods(name, where, **options)]


def started(config: SchedulerConfig, *things: Any) -> dict[str, int]:
    decisions = schedule(cluster(RANKS, *things), config)
    assert decisions.violations == []
    return bound_per_job(decisions)


# ---- who leaves it


@pytest.mark.parametrize(
    ("arguments", "rank", "number"),
    [
        pytest.param(QUARTER, "low", 6, id="what is left of the share"),
        pytest.param(QUARTER, "high", 8, id="the class that it is kept for"),
        pytest.param("{}", "low", 8, id="no headroom unless it is set"),
        pytest.param("{eviction-guard.headroom.priorityClasses: {low: 0.5}}", "low", 4, id="one class alone"),
        pytest.param("{eviction-guard.headroom.priorityClasses: {low: 0.5}}", "mid", 8, id="the others are free"),
        pytest.param("{eviction-guard.headroom: 0.3}", "low", 5, id="2.4 CPUs stay"),
    ],
)
def test_so_many_pods_start_in_an_empty_cluster(arguments: str, rank: str, number: int) -> None:
    assert len(started(keeping(arguments), EIGHT, singles(9, rank))) == number


def test_jobs_of_one_shape_together_leave_as_much_as_one_by_one() -> None:
    mixed = [gang(f"g{at}", 1, priority_class="low", created=at, cpu=1 + at % 2) for at in range(8)]
    config = keeping(actions="enqueue, allocate")
    assert sum(1 + int(name[-1]) % 2 for name in started(config, EIGHT, mixed)) == 6
    assert len(started(config, EIGHT, singles(9, "low"))) == 6


@pytest.mark.parametrize(
    ("things", "starts"),
    [
        pytest.param([gang("g", 6, priority_class="low")], 6, id="it leaves the share"),
        pytest.param([gang("g", 7, priority_class="low")], 7, id="it fits in no other way"),
        pytest.param([gang("g", 7, priority_class="low"), held("h", ["n000"], "high")], 0, id="but leaves what it can"),
        pytest.param(
            [gang("g", 6, priority_class="low"), held("h", ["n000"], "high")], 0, id="it waits for the others"
        ),
        pytest.param([gang("g", 9, 2, priority_class="low")], 6, id="more than its minimum does not count"),
        pytest.param([gang("g", 9, 7, priority_class="low", min_resources=True)], 7, id="as minResources say"),
    ],
)
def test_gangs(things: list[Any], starts: int) -> None:
    assert started(keeping(), EIGHT, things).get("g", 0) == starts


def test_a_gang_that_lost_a_member_gets_it_back() -> None:
    parts = held("g", ["n000", "n001"], minimum=3, cpu=3)
    again = gang("g", 3, priority_class="low", cpu=1)[-1]
    assert started(keeping(), EIGHT, parts, again) == {"g": 1}


def test_only_what_a_pod_asks_for_counts() -> None:
    things = [held("h", ["n000", "n001"], "high", cpu=3), gang("g", 1, priority_class="low", cpu=0, memory="1Gi")]
    assert started(keeping(), EIGHT, things) == {"g": 1}


# ---- what it does


def test_a_job_of_high_rank_starts_without_an_eviction() -> None:
    plane = Plane(keeping(), RANKS, EIGHT, singles(9, "low"))
    plane.settle()
    for thing in flatten(gang("g", 2, priority_class="high")):
        plane.put(thing)
    decisions = plane.cycle()
    assert [bind.job for bind in decisions.binds] == ["ns/g"] * 2
    assert decisions.evictions == []


def test_who_evicts_need_not_leave_more_than_there_was() -> None:
    """One of two CPUs is left; a job that leaves as much again takes two from others, and no more."""
    low = [held(f"h{at}", [f"n00{at % 2}"]) for at in range(7)]
    plane = Plane(keeping(), RANKS, EIGHT, low, gang("g", 2, priority_class="mid"))
    decisions = plane.cycle()
    assert len(decisions.evictions) == 2
    plane.settle()
    assert plane.running()["g"] == 2
    assert len(plane.running()) == 6


def test_no_node_is_tried_for_a_job_that_has_to_leave_all_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    real = Evictions._take
    monkeypatch.setattr(Evictions, "_take", lambda self, *given: (tried.append(given[1].key), real(self, *given))[1])
    things = [held(f"h{at}", ["n000"], "high") for at in range(4)]
    arguments = "{eviction-guard.headroom: 0.5, eviction-guard.headroom.priorityClasses: {high: 0}}"
    assert started(keeping(arguments), EIGHT, things, singles(1, "low")) == {}
    assert tried == []


def test_the_verdict_names_it_with_numbers() -> None:
    verdict = schedule(cluster(RANKS, EIGHT, singles(9, "low")), keeping()).verdicts["ns/low8"]
    assert verdict.cause is Cause.RESERVED
    assert verdict.message == (
        "25.0% of the cluster stays free for others (eviction-guard.headroom) (asks for cpu 1; cpu 0 is left)"
    )
    full = [held(f"h{at}", [f"n00{at % 2}"], "high") for at in range(8)]
    assert schedule(cluster(RANKS, EIGHT, full, singles(1, "low")), keeping()).verdicts["ns/low0"].cause is (
        Cause.NODES_FULL
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"eviction-guard.headroom": 1.0},
            "eviction-guard.headroom must be a share of at least 0 and below 1, not 1.0",
        ),
        ({"eviction-guard.headroom": -0.1}, "eviction-guard.headroom must be a share"),
        ({"eviction-guard.headroom": float("nan")}, "eviction-guard.headroom must be a share"),
        ({"eviction-guard.headroom.priorityClasses": {"low": "10%"}}, "priorityClasses: low must be a share"),
        ({"eviction-guard.headroom.priorityClasses": {"low": True}}, "priorityClasses: low must be a share"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create(PluginConfig("eviction-guard", arguments=arguments))


# ---- properties

ORDER = ["low", "mid", "high"]
Wanted = list[tuple[str, int]]
waves = st.lists(st.lists(st.tuples(st.sampled_from(ORDER), st.integers(1, 4)), max_size=7), min_size=1, max_size=3)
some = hypothesis_settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def crowd(wanted: Wanted, since: int) -> list[Object]:
    return flatten(gang(f"g{since + at}", size, priority_class=rank) for at, (rank, size) in enumerate(wanted))


@some
@given(waves, st.sampled_from([0.125, 0.25, 0.5]), st.integers(0, 2))
def test_the_share_stays_free_and_nobody_waits_for_it_in_vain(wanted: list[Wanted], share: float, grace: int) -> None:
    """Pods of one CPU on eight, in waves; no gang is so large that it is let off."""
    arguments = f"{{eviction-guard.headroom: {share}, eviction-guard.headroom.priorityClasses: {{high: 0}}}}"
    plane = Plane(keeping(arguments), RANKS, EIGHT, grace=grace)
    kept, jobs = int(8 * share), dict[str, tuple[str, int]]()
    for wave in wanted:
        for thing in crowd(wave, len(jobs)):
            plane.put(thing)
        jobs |= {f"g{len(jobs) + at}": one for at, one in enumerate(wave)}
        _settle(plane, jobs, kept)
        running = plane.running()
        free = 8 - sum(running.values())
        for name, (rank, size) in jobs.items():
            lesser = sum(n for other, n in running.items() if ORDER.index(jobs[other][0]) < ORDER.index(rank))
            if running.get(name, 0) < size:
                left = free if rank == "high" else max(free - kept, 0)
                assert left + lesser < size, f"{name} waits although it could start"


def _settle(plane: Plane, jobs: dict[str, tuple[str, int]], kept: int) -> None:
    for _ in range(60):
        before = 8 - sum(plane.running().values())
        decisions = plane.cycle()
        for name in {one.beneficiary for one in decisions.evictions}:
            lost = Counter(one.pod.rpartition("-")[0] for one in decisions.evictions if one.beneficiary == name)
            spared = lost.total() - min(lost.values())
            assert spared < jobs[name.partition("/")[2]][1], "more gangs have to go than it asks for"
        begun = {job_of(plane.objects["Pod", f"{bind.namespace}/{bind.pod}"]) for bind in decisions.binds}  # type: ignore[arg-type]
        promised = any(plane.evicted)
        if not promised and any(jobs[name][0] != "high" for name in begun):
            assert 8 - sum(plane.running().values()) >= min(kept, before), "it took what stays free"
        if not (begun or decisions.evictions or decisions.pipelined or plane.leaving):
            return
    raise AssertionError(f"evictions do not end: {plane.evicted}")
