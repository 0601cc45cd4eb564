"""What a node lends, how it bounds offline pods, and when it evicts one: decisions, and how they are configured."""

from __future__ import annotations

import json

import pytest
from agent_node import manifest
from hypothesis import given
from hypothesis import strategies as st

from unisono.agent.colocation.decide import (
    LEAST_CPU,
    PATIENCE,
    Candidate,
    CpuShare,
    Lending,
    Marks,
    Offer,
    Pressure,
    Settings,
    Use,
    bound,
    divide,
    lend,
    press,
    settings_of,
    victim,
)
from unisono.agent.colocation.keeper import Treatment, treatment
from unisono.api.base import ObjectMeta
from unisono.api.core import Node
from unisono.api.keys import (
    BATCH_CPU,
    BATCH_MEMORY,
    COLOCATION,
    EVICTING_CPU_HIGH,
    EVICTING_CPU_LOW,
    OVERSUBSCRIPTION,
    QOS_LEVEL,
)
from unisono.errors import ConfigError

GIB = 1 << 30
OFFER = Offer(8000, 32 * GIB)
ON = Settings(colocation=True, lends=frozenset(("cpu", "memory")))


def node(labels: dict[str, str], annotations: dict[str, str] | None = None) -> Node:
    return Node(metadata=ObjectMeta(name="n", labels=labels, annotations=annotations))


LENDS = node({OVERSUBSCRIPTION: "true", "zone": "a"})


@pytest.mark.parametrize(
    ("use", "pressed", "told"),
    [
        (Use(cpu=0, memory=0), False, (4800, 32 * GIB * 60 // 100)),
        (Use(cpu=3000, memory=12 * GIB), False, (3000, 12 * GIB)),
        # What offline pods use does not count against them.
        (Use(cpu=8000, memory=32 * GIB, offline_cpu=5000, offline_memory=20 * GIB), False, (3000, 12 * GIB)),
        (Use(cpu=9000, memory=40 * GIB), False, (0, 0)),
        (Use(cpu=0, memory=0), True, (0, 0)),
    ],
)
def test_what_is_lent(use: Use, pressed: bool, told: tuple[int, int]) -> None:
    state, due = lend(Lending(), use, OFFER, ON, pressed=pressed)
    assert due
    assert state.told == told


def test_a_type_that_is_not_lent_is_zero() -> None:
    only = Settings(colocation=True, lends=frozenset(("memory",)))
    state, _ = lend(Lending(), Use(0, 0), OFFER, only, pressed=False)
    assert state.told is not None
    assert state.told[0] == 0 < state.told[1]


def test_the_newest_samples_weigh_most_and_small_changes_wait() -> None:
    state, reports = Lending(), []
    for cpu in [0, 0, 0, 100, 8000, 8000, 8000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]:
        state, due = lend(state, Use(cpu, 0), OFFER, ON, pressed=False)
        reports.append(state.told[0] if due and state.told else None)
    assert reports[:4] == [4800, None, None, None]
    assert reports[4] is not None
    assert reports[4] < 2500
    # The end is reported now and then, changed or not.
    assert [each is None for each in reports[-6:]].count(False) >= 1
    assert state.told is not None
    assert state.told[0] > 4700


@given(
    st.lists(
        st.tuples(*(st.integers(0, 20_000) for _ in range(2)), *(st.integers(0, 64 * GIB) for _ in range(2))),
        max_size=40,
    )
)
def test_never_more_is_lent_than_the_ratio_of_what_there_is(samples: list[tuple[int, int, int, int]]) -> None:
    state = Lending()
    for cpu, offline, memory, offline_memory in samples:
        state, _ = lend(state, Use(cpu, memory, offline, offline_memory), OFFER, ON, pressed=False)
        assert state.told is not None
        assert 0 <= state.told[0] <= OFFER.cpu * 60 // 100
        assert 0 <= state.told[1] <= OFFER.memory * 60 // 100


HIGH, LOW = Use(cpu=7000, memory=0), Use(cpu=1000, memory=0)
BETWEEN = Use(cpu=4000, memory=0)
FULL = Use(cpu=0, memory=30 * GIB, offline_memory=28 * GIB)


@pytest.mark.parametrize(
    ("looks", "evictions", "pressed"),
    [
        ([HIGH] * (PATIENCE - 1), [], False),
        ([HIGH] * PATIENCE, ["cpu"], True),
        ([HIGH] * (PATIENCE + 2), ["cpu"] * 3, True),
        ([HIGH] * (PATIENCE - 1) + [BETWEEN] + [HIGH] * (PATIENCE - 1), [], False),
        # Pressure ends at the low watermark, not below the high one.
        ([HIGH] * PATIENCE + [BETWEEN] * 9, ["cpu"], True),
        ([HIGH] * PATIENCE + [LOW], ["cpu"], False),
        # CPU of offline pods is no pressure; their memory is.
        ([Use(cpu=8000, memory=0, offline_cpu=7000)] * 20, [], False),
        ([FULL] * PATIENCE, ["memory"], True),
        ([Use(cpu=7000, memory=30 * GIB)] * PATIENCE, ["memory"], True),
    ],
)
def test_when_an_offline_pod_is_evicted(looks: list[Use], evictions: list[str], pressed: bool) -> None:
    state, found = Pressure(), []
    for use in looks:
        state, short = press(state, use, OFFER, ON)
        if short is not None:
            found.append(short)
    assert (found, state.pressed) == (evictions, pressed)


@given(st.lists(st.integers(0, 8000), max_size=120))
def test_pressure_does_not_flap(loads: list[int]) -> None:
    """It begins after enough looks above the high watermark, and ends at the low one only."""
    state, row = Pressure(), 0
    for cpu in loads:
        row = row + 1 if cpu >= 6400 else 0
        before, (state, short) = state, press(state, Use(cpu, 0), OFFER, ON)
        assert (short is not None) == (row >= PATIENCE)
        if not before.pressed and state.pressed:
            assert row >= PATIENCE
        if before.pressed and not state.pressed:
            assert cpu <= 2400


def test_who_is_evicted() -> None:
    pods = [Candidate("a", 4000, GIB), Candidate("b", 1000, 4 * GIB), Candidate("c", 1000, 2 * GIB)]
    assert (victim("cpu", pods), victim("memory", pods), victim("cpu", [])) == ("a", "b", None)


@pytest.mark.parametrize(
    ("before", "online", "after"),
    [
        (None, 1000, 5400),
        (5400, 1000, 5400),
        # It falls at once, to little at most, and grows in steps of a tenth.
        (5400, 4000, 2400),
        (5400, 8000, LEAST_CPU),
        (10, 0, 810),
        (6000, 0, 6400),
        # Less than one percent is not worth a change.
        (5400, 1050, 5400),
    ],
)
def test_the_bound_of_offline_pods(before: int | None, online: int, after: int) -> None:
    assert bound(before, Use(cpu=online, memory=0), OFFER, ON) == after


@given(st.one_of(st.none(), st.integers(10, 8000)), st.lists(st.integers(0, 12_000), min_size=1, max_size=60))
def test_the_bound_grows_slowly_and_comes_to_rest(before: int | None, online: list[int]) -> None:
    for cpu in online:
        after = bound(before, Use(cpu, 0), OFFER, ON)
        assert LEAST_CPU <= after <= 8000
        assert before is None or after <= before + 800
        before = after
    for _ in range(20):
        before = bound(before, Use(online[-1], 0), OFFER, ON)
    assert before == bound(before, Use(online[-1], 0), OFFER, ON)


@pytest.mark.parametrize(
    ("total", "shares", "given_"),
    [
        (1000, [], []),
        (1000, [CpuShare(0), CpuShare(0)], [500, 500]),
        (1000, [CpuShare(3), CpuShare(1)], [750, 250]),
        (1000, [CpuShare(1, 100), CpuShare(1)], [100, 900]),
        (1000, [CpuShare(1, 200), CpuShare(1, 300), CpuShare(2)], [200, 266, 533]),
        (10, [CpuShare(1)] * 3, [10, 10, 10]),
    ],
)
def test_dividing_the_bound(total: int, shares: list[CpuShare], given_: list[int]) -> None:
    assert divide(total, shares) == given_


@given(
    st.integers(10, 100_000),
    st.lists(st.builds(CpuShare, st.integers(0, 9000), st.one_of(st.none(), st.integers(10, 9000))), max_size=9),
)
def test_no_more_is_divided_than_there_is(total: int, shares: list[CpuShare]) -> None:
    parts = divide(total, shares)
    assert all(part >= LEAST_CPU for part in parts)
    assert sum(parts) <= total + LEAST_CPU * len(parts)
    assert all(
        share.most is None or part <= max(share.most, LEAST_CPU) for part, share in zip(parts, shares, strict=True)
    )


def test_labels_switch_it_on() -> None:
    assert not settings_of(node({})).colocation
    assert settings_of(node({COLOCATION: "true"})) == Settings(colocation=True)
    assert settings_of(LENDS) == ON


def test_the_configuration_of_a_node() -> None:
    text = json.dumps(
        {
            "globalConfig": {
                "cpuThrottlingConfig": {"enable": True, "cpuThrottlingThreshold": 70},
                "evictingConfig": {"evictingCPUHighWatermark": 90},
                "unknown": {},
            },
            "nodesConfig": [
                {
                    "selector": {"matchLabels": {"zone": "a"}},
                    "overSubscriptionConfig": {"overSubscriptionTypes": "memory"},
                },
                {"selector": {"matchLabels": {"zone": "b"}}, "cpuThrottlingConfig": {"enable": False}},
            ],
        }
    )
    found = settings_of(LENDS, text)
    assert (found.throttles, found.threshold, found.cpu) == (True, 70, Marks(90, 30))
    assert found.lends == {"memory"}
    marked = node({COLOCATION: "true"}, {EVICTING_CPU_HIGH: "50"})
    assert settings_of(marked, text).cpu == Marks(50, 30)


@pytest.mark.parametrize(
    ("text", "annotations", "message"),
    [
        ("{", {}, "colocation-config cannot be read"),
        ('{"globalConfig": {"cpuThrottlingConfig": {"enable": "yes"}}}', {}, "Expected `bool"),
        ('{"globalConfig": {"cpuThrottlingConfig": {"cpuThrottlingThreshold": 101}}}', {}, "101 is no percentage"),
        ('{"globalConfig": {"overSubscriptionConfig": {"overSubscriptionTypes": "gpu"}}}', {}, "'gpu' is unknown"),
        ('{"globalConfig": {"evictingConfig": {"evictingMemoryLowWatermark": 60}}}', {}, "not below the high"),
        ("", {EVICTING_CPU_HIGH: "many"}, "is no percentage"),
        ("", {EVICTING_CPU_LOW: "80"}, "not below the high watermark"),
        ("x" * (1 << 20) + "x", {}, "at most"),
    ],
)
def test_mistakes_in_the_configuration(text: str, annotations: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings_of(node({OVERSUBSCRIPTION: "true"}, annotations), text)


@pytest.mark.parametrize(
    ("level", "resources", "wanted"),
    [
        ("", {"requests": {"memory": "1Gi"}}, Treatment()),
        ("XX", {}, Treatment()),
        ("LC", {"requests": {"memory": "1Gi"}}, Treatment(weight=800, spared=GIB, kept=True)),
        ("HLS", {}, Treatment(weight=800, kept=True)),
        ("LS", {"requests": {"memory": "1Gi"}}, Treatment(weight=200, spared=GIB)),
        ("BE", {}, Treatment(weight=1, idle=True, first=True)),
        ("BE", {"limits": {BATCH_MEMORY: "1000", BATCH_CPU: "500"}}, Treatment(1, idle=True, high=900, first=True)),
    ],
)
def test_what_qos_levels_mean(level: str, resources: dict[str, dict[str, str]], wanted: Treatment) -> None:
    pod = manifest("p", ["true"], container={"resources": resources}, metadata={"annotations": {QOS_LEVEL: level}})
    assert treatment(pod) == wanted
