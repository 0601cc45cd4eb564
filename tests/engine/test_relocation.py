"""A gang that lost members and finds no place for them: when it is given up whole, and when it is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from topology_world import job, racks, spine, wish, world

from support.build import START, config, flatten, group, pod, priority_class, queue, unadvised
from unisono.api.annotations import EVICTABLE, RELOCATE_AFTER
from unisono.api.base import OwnerReference
from unisono.api.core import Pod, PodDisruptionBudget
from unisono.api.kinds import POD_DISRUPTION_BUDGETS
from unisono.engine import relocation
from unisono.engine.decisions import Decisions

SETTINGS = config(("priority", "gang", "conformance"), ("predicates", "network-topology-aware"))
SIZES = {"a": 3, "b": 3}


def broken(name: str = "g", rack: str = "a", *, after: str = "5m", **notes: str) -> list[Any]:
    """Three pods of a node each, of which one has no node; its rack has no room, the other one has."""
    head, *pods = job(name, 3, wish(1), running={0: f"{rack}-0", 1: f"{rack}-1"}, created=100.0)
    head.metadata.annotations = {**({RELOCATE_AFTER: after} if after else {}), **notes}
    head.status.phase = "Running"
    for one in pods:
        one.metadata.owner_references = [
            OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name=name, uid="u", controller=True)
        ]
    return [head, *pods]


def full(rack: str = "a") -> list[Any]:
    """Somebody else has the last node of the rack."""
    return [group("other", 1, phase="Running"), pod("other-0", "other", node=f"{rack}-2", cpu=4)]


def decided(*things: Any, now: float = 1000.0, sizes: dict[str, int] | None = None) -> Decisions:
    plain = [each for each in flatten(things) if not isinstance(each, PodDisruptionBudget)]
    state = world(racks(sizes or SIZES), spine("s", *(sizes or SIZES)), queue("default"), *plain)
    for budget in flatten(things):
        if isinstance(budget, PodDisruptionBudget):
            state.apply("ADDED", POD_DISRUPTION_BUDGETS, budget)
    return unadvised(state, SETTINGS, now=START + now)


def gone(decisions: Decisions) -> list[str]:
    assert all((each.reason, each.beneficiary) == ("relocate", "") for each in decisions.evictions)
    assert not decisions.violations
    return sorted(each.pod for each in decisions.evictions)


def test_it_goes_whole_when_its_time_is_over_and_not_before() -> None:
    early = decided(broken(), full(), now=399.0)
    assert (gone(early), early.again_at) == ([], START + 400.0)
    assert gone(decided(broken(), full(), now=400.0)) == ["g-w-0", "g-w-1"]


def _edited(edit: Callable[[list[Any]], object]) -> list[Any]:
    things = broken()
    edit(things)
    return things


def _pods(things: list[Any]) -> list[Pod]:
    return [each for each in things if isinstance(each, Pod)]


def _budget() -> Any:
    value = {
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"maxUnavailable": 1, "selector": {}},
        "status": {"disruptionsAllowed": 1, "observedGeneration": 0},
    }
    return msgspec.convert(value, POD_DISRUPTION_BUDGETS.struct)


STAYS: dict[str, list[Any]] = {
    "nobody asked for it": [*broken(after=""), *full()],
    "the time cannot be read": [*broken(after="soon"), *full()],
    "its rack has room": broken(),
    "the other rack is full, too": [*broken(), *full(), pod("x", node="b-0", cpu=4)],
    "no controller makes a pod again": [
        *_edited(lambda all: setattr(_pods(all)[0].metadata, "owner_references", None)),
        *full(),
    ],
    "a pod may never be evicted": [
        *_edited(lambda all: _pods(all)[0].metadata.annotations.update({"volcano.sh/preemptable": "false"})),  # type: ignore[union-attr]
        *full(),
    ],
    "a pod is critical": [
        *_edited(lambda all: setattr(_pods(all)[0].spec, "priority_class_name", "system-node-critical")),
        *full(),
        priority_class("system-node-critical", 2_000_001_000),
    ],
    "a budget allows one": [*broken(), *full(), _budget()],
    "one of its pods is on its way out": [
        *_edited(lambda all: setattr(_pods(all)[0].metadata, "deletion_timestamp", "2023-11-14T22:20:00Z")),
        *full(),
    ],
    "it has its minimum": [*_edited(lambda all: setattr(all[0].spec, "min_member", 2)), *full()],
}


@pytest.mark.parametrize("why", STAYS)
def test_it_stays(why: str) -> None:
    assert gone(decided(STAYS[why])) == []


def test_what_it_does_not_let_go_for_others_it_gives_up_for_itself() -> None:
    assert gone(decided(broken(**{EVICTABLE: "none"}), full())) == ["g-w-0", "g-w-1"]


def test_one_gang_moves_in_a_cycle_and_the_next_one_when_that_one_has_its_places() -> None:
    sizes = {"a": 3, "b": 3, "c": 3, "d": 3}
    things = [*broken("g", "a"), *full("a"), *broken("h", "b")]
    things += [group("more", 1, phase="Running"), pod("more-0", "more", node="b-2", cpu=4)]
    state = world(racks(sizes), spine("s", *sizes), queue("default"), things)
    first = unadvised(state, SETTINGS)
    assert gone(first) == ["g-w-0", "g-w-1"]
    for name in ("g-w-0", "g-w-1"):
        state.release(f"ns/{name}", START + 1000.0)
    waits = unadvised(state, SETTINGS, now=START + 1001.0)
    assert (gone(waits), waits.again_at) == ([], START + 1060.0)
    assert gone(unadvised(state, SETTINGS, now=START + 1061.0)) == ["h-w-0", "h-w-1"]


def test_a_trial_in_vain_is_not_made_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def rehearse(_: Any, job: Any, *__: Any) -> None:
        tried.append(job.key)

    monkeypatch.setattr(relocation, "rehearse", rehearse)
    state = world(racks(SIZES), spine("s", *SIZES), queue("default"), broken(), full())
    for now in (1000.0, 1001.0, 1029.0, 1030.0):
        decisions = unadvised(state, SETTINGS, now=START + now)
        assert gone(decisions) == []
    assert tried == ["ns/g", "ns/g"]
    assert decisions.again_at == START + 1060.0


def test_many_gangs_that_ask_in_vain_do_not_keep_the_scheduler_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[float, str]] = []
    monkeypatch.setattr(relocation, "rehearse", lambda cycle, job, *_: tried.append((cycle.session.now, job.key)))
    sizes = dict.fromkeys("abcdefgh", 3)
    things = [part for name in "abcdefg" for part in (*broken(f"g{name}", name), *_taken(name))]
    state, now = world(racks(sizes), spine("s", *sizes), queue("default"), things), START + 1000.0
    for _ in range(60):
        decisions = unadvised(state, SETTINGS, now=now)
        assert decisions.again_at is not None
        assert decisions.again_at > now, "it is not looked at again at once"
        now += 1.0
    times = [time for time, _ in tried]
    assert len({key for _, key in tried}) == 7, "all have their turn"
    assert all(later - time >= 5.0 for time, later in zip(times, times[2:], strict=False))


def _taken(rack: str) -> list[Any]:
    return [group(f"other-{rack}", 1, phase="Running"), pod(f"o-{rack}", f"other-{rack}", node=f"{rack}-2", cpu=4)]
