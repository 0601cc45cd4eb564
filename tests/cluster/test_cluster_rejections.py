"""An object that cannot be taken in is set aside whole: nothing of it counts, and everybody else stays as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_cluster_state import dump

from support.build import START, cluster, gang, group, kind_of, node, nodes, pod, priority_class, queue, schedule
from unisono.api import kinds
from unisono.api.base import Object
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState

SETTING = (nodes(2), queue("q"), gang("a", 2, queue="q", cpu=1), gang("b", 2, queue="q", cpu=1, node="n000"))


class Injected(RuntimeError):
    """A fault that no code expects."""


def fail(*_: Any, **__: Any) -> Any:
    raise Injected("injected")


STEPS: dict[str, tuple[Callable[[ClusterState], Any], str, Object]] = {
    "pod: class": (lambda state: state.classes, "intern", pod("x", "a", cpu=2)),
    "pod: foreign": (lambda state: state._foreign, "note", pod("x", "a", cpu=2)),
    "pod: node": (lambda state: state.nodes, "occupy", pod("x", "a", cpu=2, node="n000")),
    "pod: affinity": (lambda state: state.affinity_index, "add", pod("x", "a", cpu=2, node="n000")),
    "pod: affinity_index of one that moves": (
        lambda state: state.affinity_index,
        "remove",
        pod("a-w-0", "a", node="n001"),
    ),
    "pod: job": (lambda state: state.book, "add_task", pod("x", "a", cpu=2, node="n000")),
    "pod: job's counts": (lambda state: state.book, "_count", pod("x", "new", cpu=2, node="n000")),
    "pod: job that it leaves": (lambda state: state.book, "remove_task", pod("a-w-0", "b", cpu=2, node="n001")),
    "group: queue": (lambda state: state.book, "_enter_queue", group("new", 2, queue="q")),
    "group: vector": (lambda state: state.registry, "vector", group("new", 2, resources={"cpu": 1})),
    "node: labels": (lambda state: state.nodes, "_count_names", node("new", cpu=2)),
    "queue: rows": (lambda state: state.book, "_queue", queue("new", capability={"cpu": 1})),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_nothing_remains_of_a_change_that_stops_halfway(
    step: tuple[Callable[[ClusterState], Any], str, Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name, obj = step
    state = cluster(*SETTING)
    state.snapshot()
    kind = kind_of(obj)
    real = getattr(place(state), name)
    calls = [0]

    def once(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        return fail() if calls[0] == 1 else real(*given, **named)

    if hasattr(type(place(state)), "__slots__"):
        monkeypatch.setattr(type(place(state)), name, lambda _, *given, **named: once(*given, **named))
    else:
        monkeypatch.setattr(place(state), name, once)
    state.apply("ADDED", kind, obj)
    monkeypatch.undo()
    assert calls[0]
    assert f"{kind.kind} {obj.key}" in state.rejected

    others = [one for one in flat(SETTING) if (kind_of(one), one.key) != (kind, obj.key)]
    expected = cluster(*others)
    if kind is kinds.PODS and obj.spec.node_name:  # type: ignore[attr-defined]
        blind = pod(obj.metadata.name, node=obj.spec.node_name, scheduler="another", cpu=2)  # type: ignore[attr-defined]
        blind.spec.containers = obj.spec.containers  # type: ignore[attr-defined]
        expected.apply("ADDED", kinds.PODS, blind)
    assert dump(state) == dump(expected)

    state.apply("MODIFIED", kind, obj)
    assert not state.rejected
    whole = cluster(*others, obj)
    assert dump(state) == dump(whole)


def flat(things: Any) -> list[Object]:
    return [each for thing in things for each in (flat(thing) if isinstance(thing, list | tuple) else [thing])]


def test_every_kind_is_set_aside_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    state = cluster(*SETTING)
    before = dump(state)
    for name, (_, remove, keys) in list(state._handlers.items()):
        state._handlers[name] = (fail, remove, keys)
    for kind in kinds.ALL_KINDS:
        if kind.kind in state._handlers:
            obj = kind.struct()
            obj.metadata.name, obj.metadata.namespace = "odd", "ns" if kind.namespaced else None
            state.apply("ADDED", kind, obj)
    assert {one.kind for one in state.rejected.all()} == set(state._handlers)
    after = dump(state)
    assert {key: after[key] for key in ("nodes", "jobs", "queues")} == {
        key: before[key] for key in ("nodes", "jobs", "queues")
    }


def test_a_running_pod_that_cannot_be_read_keeps_its_place() -> None:
    state = cluster(nodes(1, cpu=4), gang("j", 1, cpu=2))
    odd = pod("odd", node="n000", cpu=3)
    odd.status.start_time = "2026-06-30T23:59:60Z"  # a leap second
    odd.spec.containers[0].resources.requests["memory"] = "many"  # type: ignore[index]
    state.apply("ADDED", kinds.PODS, odd)
    assert "Pod ns/odd" in state.rejected
    assert state.snapshot().nodes.used[0, 0] == 3000
    assert not schedule(state).binds
    state.apply("DELETED", kinds.PODS, odd)
    assert not state.rejected
    assert len(schedule(state).binds) == 1


def test_a_finished_pod_that_cannot_be_read_holds_nothing() -> None:
    odd = pod("odd", node="n000", phase="Succeeded", cpu="many")
    state = cluster(nodes(1), odd)
    assert "Pod ns/odd" in state.rejected
    assert not state.tasks


def test_a_node_that_cannot_be_read_gets_no_pods_and_a_queue_keeps_its_jobs_waiting() -> None:
    state = cluster(node("bad", cpu="many"), queue("q", capability={"cpu": "many"}), gang("j", 1, queue="q"))
    assert {f"{one.kind} {one.key}" for one in state.rejected.all()} == {"Node bad", "Queue q"}
    decisions = schedule(state)
    assert not decisions.binds
    assert "ns/j" in decisions.verdicts


def test_a_list_without_it_ends_a_rejection() -> None:
    state = cluster(pod("bad", cpu="many"))
    state.replace(kinds.PODS, [])
    assert not state.rejected


def test_a_rejection_is_a_change_once() -> None:
    state = cluster(nodes(1))
    state.apply("ADDED", kinds.PODS, pod("bad", cpu="many"))
    version = state.version
    state.apply("MODIFIED", kinds.PODS, pod("bad", cpu="many"))
    assert state.version == version
    state.apply("MODIFIED", kinds.PODS, pod("bad", cpu="few"))
    assert state.version > version


@pytest.mark.parametrize("text", ["9" * 4000, "-" + "9" * 4000, "1e9", "nan", "", "²"])
def test_odd_priorities_in_annotations_stay_numbers_that_arrays_hold(text: str) -> None:
    state = cluster(
        nodes(1), priority_class("p", 2**31 - 1), pod("a-1", "a", annotations={"volcano.sh/task-priority": text})
    )
    assert abs(state.tasks["ns/a-1"].priority) < 2**31
    assert not state.rejected


@pytest.mark.parametrize("created", [rfc3339(-62135596800.0), "9999-12-31T23:59:59Z", rfc3339(START)])
def test_times_at_the_ends_of_the_calendar_are_read(created: str) -> None:
    odd = pod("a-" + "9" * 200, "a")
    odd.metadata.creation_timestamp = created
    state = cluster(nodes(1), odd)
    assert not state.rejected
    assert schedule(state) is not None
