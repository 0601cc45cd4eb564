"""The fast model of a cluster's future, beside the engine's futures."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import pytest

from simulator.test_forecast import NOW, group, live, pod
from simulator.worlds import FIFO, PREEMPT
from support.build import floating
from unisono.api.annotations import LICENSES
from unisono.api.decode import decode
from unisono.api.groups.scheduling import NetworkTopologySpec
from unisono.api.groups.topology import HyperNode
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import (
    FLOATING_RESOURCES,
    HYPER_NODES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESERVATIONS,
)
from unisono.api.times import rfc3339
from unisono.engine.config_file.reader import default_config, load_config
from unisono.simulator.clusters import make_node, make_queue
from unisono.simulator.forecast.forecast import Budget, Forecast, forecast
from unisono.simulator.forecast.live import LiveObjects
from unisono.simulator.forecast.whatif import apply_changes, what_if
from unisono.simulator.world.objects import priority_object

SHARED = FIFO.replace("  - name: predicates\n", "  - name: predicates\n  - name: proportion\n")
CAPPED = FIFO.replace("  - name: predicates\n", "  - name: predicates\n  - name: capacity\n")


def ticking(every: float = 1.0) -> Any:
    """A clock that goes on whenever somebody looks."""
    numbers = count()
    return lambda: next(numbers) * every


def fast(objects: LiveObjects, config: str = FIFO, **more: Any) -> Forecast:
    """The fast model's answer alone."""
    return forecast(objects, load_config(config), NOW, budget=Budget.of(0.0, ticking()), **more)


def starts(found: Forecast) -> dict[str, float | None]:
    return {start.key: start.median for start in found.starts}


def drawn(seed: int, nodes: int = 4, queues: int = 1, **queue: Any) -> LiveObjects:
    """Nodes of 8 GPUs, jobs that run, and gangs that wait."""
    draw, objects = random.Random(seed), LiveObjects()
    objects.add(NODES, [make_node(f"n{at}", cpu=64, memory="256Gi", gpus=8) for at in range(nodes)])
    objects.add(QUEUES, [make_queue("default")])
    names = ["default", *(f"q{at}" for at in range(1, queues))]
    objects.add(QUEUES, [make_queue(name, **queue) for name in names[1:]])
    for at in range(nodes):
        for half in range(2):
            name = f"r{at}-{half}"
            stated = draw.randint(600, 3000)
            spec = {"queue": draw.choice(names)}
            objects.add(POD_GROUPS, [group(name, -500, running=True, stated=stated, **spec)])
            objects.add(PODS, [pod(name, 4, -500, f"n{at}")])
    for at in range(20):
        name, pods, gpus = f"w{at:02}", draw.choice([1, 1, 2, 3]), draw.choice([1, 2, 4, 8])
        spec = {"min_member": pods, "queue": draw.choice(names)}
        objects.add(POD_GROUPS, [group(name, at - 400, running=False, stated=draw.randint(100, 2000), **spec)])
        objects.add(PODS, [pod(name, gpus, at - 400, number=number) for number in range(pods)])
    return objects


def test_where_nothing_but_capacity_matters_it_says_what_the_engine_says() -> None:
    assert starts(fast(live(), futures=1)) == {"ns/b": 600, "ns/c": 1100}
    assert fast(live(), futures=1).source == "1 future of a fast model"


@pytest.mark.parametrize("seed", range(8))
def test_whole_nodes_start_in_the_same_order_at_the_same_times(seed: int) -> None:
    objects = drawn(seed)
    for each in objects.of("Pod"):  # a node each: where they are put makes no difference
        if not each.spec.node_name:
            each.spec.containers[0].resources.requests["nvidia.com/gpu"] = 8
    assert starts(fast(objects, futures=1)) == starts(forecast(objects, load_config(FIFO), NOW, futures=1))


@pytest.mark.parametrize(("config", "queues"), [(FIFO, 1), (SHARED, 3), (CAPPED, 3)])
def test_with_parts_of_nodes_and_queues_most_jobs_start_about_then(config: str, queues: int) -> None:
    close, pairs = 0, 0
    for seed in range(6):
        objects = drawn(seed, queues=queues, weight=2)
        mine = starts(fast(objects, config, futures=1))
        true = starts(forecast(objects, load_config(config), NOW, futures=1))
        for key, came in true.items():
            said = mine[key]
            assert (said is None) == (came is None)  # two gangs may keep each other's queue from its share for good
            close += said is None or came is None or abs(said - came) <= max(0.2 * came, 120)
            pairs += 1
    assert close >= 0.8 * pairs


@pytest.mark.parametrize("as_whole", [False, True], ids=["pods", "the job"])
def test_jobs_wait_for_licences(as_whole: bool) -> None:
    objects = LiveObjects()
    objects.add(NODES, [make_node("n1", cpu=16, memory="64Gi", gpus=8)])
    objects.add(QUEUES, [make_queue("default")])
    objects.add(FLOATING_RESOURCES, [floating("matlab", 3, 1)])
    groups = [group(f"j{at}", at - 90, running=False, stated=100) for at in range(4)]
    pods = [pod(f"j{at}", 1, at - 90) for at in range(4)]
    for head, one in zip(groups, pods, strict=True):
        if as_whole:
            head.metadata.annotations = {**(head.metadata.annotations or {}), LICENSES: "matlab"}
        else:
            one.spec.containers[0].resources.requests["licenses.unisono.io/matlab"] = "1"
    objects.add(POD_GROUPS, groups)
    objects.add(PODS, pods)
    found = fast(objects, futures=1)
    assert starts(found) == {"ns/j0": 0, "ns/j1": 0, "ns/j2": 100, "ns/j3": 100}
    assert starts(found) == starts(forecast(objects, load_config(FIFO), NOW, futures=1))


def test_a_queue_holds_no_more_than_its_capability() -> None:
    def objects(**queue: Any) -> LiveObjects:
        found = LiveObjects()
        found.add(NODES, [make_node("n1", cpu=16, memory="64Gi", gpus=8)])
        found.add(QUEUES, [make_queue("default"), make_queue("small", **queue)])
        for at in range(4):
            found.add(POD_GROUPS, [group(f"j{at}", at - 90, running=False, stated=100, queue="small")])
            found.add(PODS, [pod(f"j{at}", 2, at - 90)])
        return found

    assert set(starts(fast(objects(), futures=1)).values()) == {0}
    bound = objects(capability={"nvidia.com/gpu": 4})
    found = fast(bound, futures=1)
    assert starts(found) == {"ns/j0": 0, "ns/j1": 0, "ns/j2": 100, "ns/j3": 100}
    assert starts(found) == starts(forecast(bound, load_config(FIFO), NOW, futures=1))
    never = fast(objects(capability={"nvidia.com/gpu": 1}), futures=1)
    assert {start.never for start in never.starts} == {"it asks for more than its queue may hold"}


def test_a_gang_that_must_stay_in_a_domain_waits_for_one() -> None:
    objects = LiveObjects()
    objects.add(NODES, [make_node(f"n{at}", cpu=16, memory="64Gi", gpus=4) for at in range(4)])
    objects.add(QUEUES, [make_queue("default")])
    for rack, names in enumerate((("n0", "n1"), ("n2", "n3"))):
        members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]
        value = {"apiVersion": HYPER_NODES.api_version, "kind": "HyperNode", "metadata": {"name": f"rack{rack}"}}
        decoded = decode(HYPER_NODES, {**value, "spec": {"tier": 1, "members": members}})
        assert isinstance(decoded.obj, HyperNode)
        objects.add(HYPER_NODES, [decoded.obj])
    wish = NetworkTopologySpec(mode="hard", highest_tier_allowed=1)
    for name, node, stated in (("a", "n0", 1000), ("b", "n2", 2000)):
        objects.add(POD_GROUPS, [group(name, -10, running=True, stated=stated)])
        objects.add(PODS, [pod(name, 4, -10, node)])
    objects.add(POD_GROUPS, [group("g", -5, running=False, stated=10, min_member=2, network_topology=wish)])
    objects.add(PODS, [pod("g", 4, -5, number=number) for number in range(2)])
    objects.add(POD_GROUPS, [group("h", -4, running=False, stated=10, min_member=3, network_topology=wish)])
    objects.add(PODS, [pod("h", 4, -4, number=number) for number in range(3)])
    found = fast(objects, futures=1)
    assert starts(found) == {"ns/g": 990, "ns/h": None}
    assert found.starts[1].never == "no domain of the network that it may use is large enough"


def test_jobs_that_no_node_can_hold_are_told_so() -> None:
    objects = live(group("huge", -50, running=False, stated=10))
    objects.add(PODS, [pod("huge", 9, -50)])
    huge = next(start for start in fast(objects, futures=1).starts if start.key == "ns/huge")
    assert (huge.median, huge.chance, huge.never) == (None, 0, "no node is large enough")


def test_possible_futures_agree_with_those_of_the_engine() -> None:
    engine = forecast(live(), load_config(FIFO), NOW, futures=30, seed=4)
    found = fast(live(), futures=30, seed=4)
    whole = forecast(live(), load_config(FIFO), NOW, futures=30, seed=4, budget=Budget.of(1.0, lambda: 0.0))
    assert [start.times for start in whole.starts] == [start.times for start in engine.starts]
    assert whole.source == "30 futures of the engine"
    assert len(found.runs) == 9  # the time is over before it begins
    assert all(start.low is not None for start in found.starts)


def test_what_the_engine_has_simulated_within_the_time_counts() -> None:
    objects = drawn(3)
    engine = forecast(objects, load_config(FIFO), NOW, futures=9, seed=1)
    found = forecast(objects, load_config(FIFO), NOW, futures=9, seed=1, budget=Budget.of(80.0, ticking()))
    assert not found.whole
    assert 0 < found.engine < 9
    assert f"corrected by {found.engine} future" in found.source
    assert " of the engine and the first " in found.source
    both = zip(found.starts, engine.starts, strict=True)
    assert all(set(mine.times) & set(true.times) for mine, true in both)
    first = forecast(objects, load_config(FIFO), NOW, futures=9, seed=1, budget=Budget.of(0.0, ticking()))
    assert (first.engine, first.whole) == (0, False)


def test_what_if_compares_the_same_kind_of_futures() -> None:
    new = {"name": "new", "count": 2, "cpu": 64, "memory": "256Gi", "gpus": 8}
    change = apply_changes(drawn(1), [({"nodes": [new]}, "c:1")], NOW)
    found = what_if(drawn(1), load_config(FIFO), NOW, change, futures=5, budget=Budget.of(0.0, ticking()))
    assert found.source == "5 futures of a fast model"
    assert sum((each.later or 0) < 0 for each in found.moved) > len(found.moved) / 2
    exact = what_if(drawn(1), load_config(FIFO), NOW, change, futures=5)
    assert exact.source == "5 futures of the engine"
    figures = {each.name: each for each in found.figures}
    for each in exact.figures:
        assert figures[each.name].before == pytest.approx(each.before, rel=0.25, abs=1)


def urgent(seed: int) -> LiveObjects:
    """As `drawn`, where some of the gangs that wait are of a higher priority."""
    objects, draw, high = drawn(seed), random.Random(seed), priority_object(100)
    objects.add(PRIORITY_CLASSES, [high])
    chosen = set()
    for each in objects.of("PodGroup"):
        if each.metadata.name.startswith("w") and draw.random() < 0.3:
            each.spec.priority_class_name = high.metadata.name
            chosen.add(each.metadata.name)
    for each in objects.of("Pod"):
        if each.metadata.annotations[GROUP_NAME] in chosen:
            each.spec.priority = 100
    return objects


def test_what_is_evicted_for_a_higher_priority_begins_anew_as_the_engine_says() -> None:
    close, pairs = 0, 0
    for seed in range(6):
        found = fast(urgent(seed), PREEMPT, futures=1)
        true = forecast(urgent(seed), load_config(PREEMPT), NOW, futures=1)
        mine, theirs = (sum(each.evictions for each in one.runs[0].outcomes) for one in (found, true))
        assert mine == pytest.approx(theirs, rel=0.5)
        for said, came in zip(found.starts, true.starts, strict=True):
            assert said.median is not None and came.median is not None
            close += abs(said.median - came.median) <= max(0.2 * came.median, 120)
            pairs += 1
    assert close >= 0.9 * pairs


def test_a_job_that_ran_before_the_forecast_loses_its_progress_where_it_is_evicted() -> None:
    objects = LiveObjects()
    objects.add(NODES, [make_node("n1", cpu=16, memory="64Gi", gpus=4)])
    objects.add(QUEUES, [make_queue("default")])
    objects.add(PRIORITY_CLASSES, [priority_object(100)])
    high = priority_object(100).metadata.name
    objects.add(POD_GROUPS, [group("old", -400, running=True, stated=1000)])
    objects.add(POD_GROUPS, [group("new", -10, running=False, stated=50, priority_class_name=high)])
    objects.add(POD_GROUPS, [group("last", -5, running=False, stated=50)])
    objects.add(PODS, [pod("old", 4, -400, "n1"), pod("new", 4, -10), pod("last", 4, -5)])
    objects.of("Pod")[1].spec.priority = 100
    told = {"ns/new": 0, "ns/last": 1050}  # behind the 50 s of the new one all 1,000 s of the old one
    assert starts(fast(objects, PREEMPT, futures=1)) == told
    assert starts(forecast(objects, load_config(PREEMPT), NOW, futures=1)) == told


def test_an_answer_says_what_of_the_configuration_the_model_leaves_out() -> None:
    config = 'actions: "enqueue, allocate, reclaim, backfill"\ntiers:\n- plugins:\n'
    config += "".join(
        f"  - name: {name}\n" for name in ("priority", "gang", "reservation", "overcommit", "predicates", "proportion")
    )
    config += "  - name: user-limits\n    arguments: {user-limits.AutoEnable: true}\n"
    assert fast(live(), config, futures=1).source == "1 future of a fast model without reclaim, reservation"


def test_a_forecast_of_the_engine_goes_by_the_calendar_and_the_fast_model_says_that_it_does_not() -> None:
    """Both jobs that wait would start at 600 s and 1,100 s; the node is in maintenance from the second minute on."""
    objects = live()
    window = {"start": rfc3339(NOW + 120), "duration": "2h", "nodes": ["*"], "purpose": "Maintenance"}
    objects.add(RESERVATIONS, [decode(RESERVATIONS, {"metadata": {"name": "down"}, "spec": window}).obj])
    found = forecast(objects, default_config(), NOW, futures=1)
    assert min(start.median or 0.0 for start in found.starts) >= 7320
    told = forecast(objects, default_config(), NOW, futures=1, budget=Budget.of(0.0, ticking()))
    assert told.source == "1 future of a fast model without reservations"
