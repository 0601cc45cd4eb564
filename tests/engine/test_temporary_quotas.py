"""Other numbers of a queue for a time: they hold within their windows, and not before or after."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.build import START, cluster, gang, nodes, placed, queue, schedule
from unisono.api.groups.calendar import TemporaryQuota
from unisono.api.kinds import TEMPORARY_QUOTAS
from unisono.api.times import rfc3339
from unisono.api.validation import validate
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import default_config
from unisono.engine.decisions import Decisions
from unisono.engine.session.calendar import as_of

HOUR = 3600.0


def quota(name: str, start: float, end: float, *, created: float = 0.0, of: str = "q", **spec: Any) -> TemporaryQuota:
    times = {"start": rfc3339(START + start), "end": rfc3339(START + end)}
    meta = {"name": name, "creationTimestamp": rfc3339(START + created)}
    return msgspec.convert({"metadata": meta, "spec": {**times, "queue": of, **spec}}, TemporaryQuota)


def decide(state: ClusterState, after: float) -> Decisions:
    return schedule(state, default_config(), now=START + after)


@pytest.mark.parametrize(("after", "pods"), [(0.0, 2), (HOUR, 5), (2 * HOUR - 1, 5), (2 * HOUR, 2)])
def test_a_capability_holds_within_its_window(after: float, pods: int) -> None:
    """Other resources keep their limits, and the invariants are checked by the same numbers."""
    limited = queue("q", capability={"cpu": 2, "memory": "1Ti"})
    more = quota("more", HOUR, 2 * HOUR, capability={"cpu": 5})
    state = cluster(nodes(2, cpu=8), limited, gang("a", 8, 1, queue="q"), more)
    decisions = decide(state, after)
    assert (len(placed(decisions)), decisions.violations) == (pods, [])
    assert decisions.again_at == {0.0: START + HOUR, 2 * HOUR: None}.get(after, START + 2 * HOUR)


def test_a_smaller_capability_holds_too_and_evicts_nobody() -> None:
    less = quota("less", 0.0, HOUR, capability={"cpu": 1})
    state = cluster(nodes(2, cpu=8), queue("q"), gang("a", 8, 1, queue="q"), less)
    decisions = decide(state, 0.0)
    assert (len(placed(decisions)), decisions.evictions) == (1, [])
    assert len(placed(decide(state, HOUR))) == 8


def numbers(state: ClusterState, after: float) -> dict[str, Any]:
    record = as_of(state.snapshot(), START + after)[0].queues["q"]
    return {name: getattr(record, name) for name in ("weight", "capability", "deserved", "guarantee")}


def test_every_number_and_of_several_the_one_that_was_created_last() -> None:
    own = queue("q", weight=2, deserved={"cpu": 4}, guarantee={"cpu": 1})
    first = quota("z", 0.0, 4 * HOUR, weight=7, deserved={"cpu": 6}, guarantee={"cpu": 3, "example.com/none": 5})
    second = quota("a", HOUR, 2 * HOUR, created=1.0, weight=9, capability={"memory": "1Gi"})
    state = cluster(nodes(2), own, first, second, quota("other", 0.0, HOUR, of="gone", weight=3))
    of_first = {"weight": 7, "capability": None, "deserved": {"cpu": 6000}, "guarantee": {"cpu": 3000}}
    assert numbers(state, 0.0) == of_first
    assert numbers(state, HOUR) == {**of_first, "weight": 9, "capability": {"memory": 2**30}}
    plain = {"weight": 2, "capability": None, "deserved": {"cpu": 4000}, "guarantee": {"cpu": 1000}}
    assert numbers(state, 4 * HOUR) == plain
    record = state.snapshot().queues["q"]
    assert (record.weight, record.deserved) == (2, {"cpu": 4000}), "the state is as the Queue says"
    state.apply("DELETED", TEMPORARY_QUOTAS, first)
    assert numbers(state, 0.0) == plain


def test_a_snapshot_without_any_is_the_same_object() -> None:
    snapshot = cluster(nodes(1), queue("q")).snapshot()
    assert as_of(snapshot, START) == (snapshot, None)
    assert as_of(snapshot, START)[0] is snapshot


def test_a_weight_divides_the_cluster_for_a_time() -> None:
    both = [gang("a", 8, 1, queue="q"), gang("b", 8, 1, queue="r")]
    state = cluster(nodes(1, cpu=8), queue("q"), queue("r"), both, quota("more", HOUR, 2 * HOUR, weight=3))
    for after, share in ((0.0, 4), (HOUR, 6), (2 * HOUR, 4)):
        got = [name for name in placed(decide(state, after)) if name.startswith("a-")]
        assert len(got) == share, after


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"capability": {"cpu": 1}, "queue": ""}, "spec.queue"),
        ({}, "spec.capability"),
        ({"weight": 0}, "spec.weight"),
        ({"deserved": {"cpu": "many"}}, "spec.deserved"),
        ({"capability": {"cpu": 1}, "timeZone": "UTC"}, "spec.timeZone"),
    ],
)
def test_what_is_refused(spec: dict[str, Any], field: str) -> None:
    errors = validate(TEMPORARY_QUOTAS, quota("x", 0.0, HOUR, **spec))
    assert [error.path for error in errors if error.path.startswith(field)]
    assert validate(TEMPORARY_QUOTAS, quota("x", 0.0, HOUR, weight=2)) == []


def test_a_broken_one_is_set_aside_and_named() -> None:
    state = cluster(nodes(1), queue("q"), quota("bad", HOUR, 0.0, weight=2), quota("good", 0.0, HOUR, weight=5))
    assert [one.key for one in state.rejected.all()] == ["bad"]
    assert numbers(state, 0.0)["weight"] == 5
