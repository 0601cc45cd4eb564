"""Device claims on devices that share: partitions that draw from counters, devices that several claims use."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plugins_claims import DRIVER, LACKING, NODES, claim, decide, device, device_class, devices_of, slice_of, user

from support.examples import examples
from unisono.api.core import DeviceRequestAllocationResult
from unisono.engine.decisions import ClaimAllocation


def counters(memory: str, name: str = "card", where: str = "n1", count: int = 2) -> Any:
    """The slice of a pool's counters; it has no devices."""
    shared = [{"name": name, "counters": {"memory": {"value": memory}}}]
    return slice_of(where, pool=where, count=count, sharedCounters=shared, **{"nodeName": where})


def part(name: str, memory: str, counter_set: str = "card", **attributes: Any) -> dict[str, Any]:
    draws = [{"counterSet": counter_set, "counters": {"memory": {"value": memory}}}]
    return device(name, **attributes, extra={"consumesCounters": draws})


def cards(*devices: dict[str, Any], memory: str = "80Gi") -> list[Any]:
    """One card of n1 that can be cut into ``devices``."""
    head = counters(memory)
    head.metadata.name = "slice-counters"
    return [head, slice_of("n1", *devices, count=2)]


def shared(name: str, memory: str = "80Gi", policy: dict[str, Any] | None = None, **attributes: Any) -> dict[str, Any]:
    capacity = {"memory": {"value": memory, **({"requestPolicy": policy} if policy else {})}}
    return {**device(name, **attributes), "capacity": capacity, "allowMultipleAllocations": True}


def asking(memory: str) -> dict[str, Any]:
    return {"capacity": {"requests": {"memory": memory}}}


def claims(*requests: dict[str, Any]) -> list[Any]:
    """Claims c0, c1, ... each of a pod of its own, oldest first."""
    found: list[Any] = []
    for at, request in enumerate(requests):
        found += [claim(f"c{at}", request), *user(f"p{at}", f"c{at}", created=float(at))]
    return found


BIG, SMALL = part("whole", "80Gi", size="big"), [part(f"part-{at}", "40Gi", size="small") for at in range(3)]


def of_size(size: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].size == '{size}'"}}]}


HALVES = {"default": "40Gi", "validValues": ["40Gi", "80Gi"]}
STEPS = {"default": "10Gi", "validRange": {"min": "10Gi", "max": "60Gi", "step": "10Gi"}}
SHARING: dict[str, tuple[list[Any], dict[str, list[str]]]] = {
    "parts until the counter is used up": (
        [*cards(BIG, *SMALL), *claims(of_size("small"), of_size("small"), of_size("small"))],
        {"c0": ["part-0"], "c1": ["part-1"]},
    ),
    "the whole card, and no part": (
        [*cards(BIG, *SMALL), *claims(of_size("big"), of_size("small"))],
        {"c0": ["whole"]},
    ),
    "a part, and not the whole card": (
        [*cards(BIG, *SMALL), *claims(of_size("small"), of_size("big"), of_size("small"))],
        {"c0": ["part-0"], "c2": ["part-1"]},
    ),
    "two parts of one claim": ([*cards(*SMALL), *claims({"count": 2}, {})], {"c0": ["part-0", "part-1"]}),
    "not three parts of one claim": ([*cards(*SMALL), *claims({"count": 3}, {})], {"c1": ["part-0"]}),
    "a counter set that does not exist": (
        [*cards(part("a", "1Gi", "other")), *claims({})],
        {},
    ),
    "shares until the device is full": (
        [slice_of("n1", shared("g")), *claims(asking("30Gi"), asking("30Gi"), asking("30Gi"), asking("20Gi"))],
        {"c0": ["g"], "c1": ["g"], "c3": ["g"]},
    ),
    "without an amount, all of it": ([slice_of("n1", shared("g")), *claims({}, asking("1Gi"))], {"c0": ["g"]}),
    "without an amount, the default": (
        [slice_of("n1", shared("g", policy=HALVES)), *claims({}, {}, {})],
        {"c0": ["g"], "c1": ["g"]},
    ),
    "raised to a permitted amount": (
        [slice_of("n1", shared("g", policy=HALVES)), *claims(asking("1Gi"), asking("41Gi"), asking("40Gi"))],
        {"c0": ["g"], "c2": ["g"]},
    ),
    "raised to the next step": (
        [slice_of("n1", shared("g", policy=STEPS)), *claims(asking("51Gi"), asking("11Gi"), asking("1Gi"))],
        {"c0": ["g"], "c1": ["g"]},
    ),
    "more than a request may have": ([slice_of("n1", shared("g", policy=STEPS)), *claims(asking("61Gi"))], {}),
    "an amount that the device does not know": (
        [slice_of("n1", shared("g")), *claims({"capacity": {"requests": {"bandwidth": "1"}}})],
        {},
    ),
    "two shares of one device for one claim": (
        [slice_of("n1", shared("g")), *claims({"count": 2, **asking("40Gi")})],
        {"c0": ["g", "g"]},
    ),
    "a device of one claim that is large enough": (
        [
            slice_of("n1", device("a", memory="40Gi"), device("b", memory="80Gi")),
            *claims(asking("41Gi"), asking("41Gi")),
        ],
        {"c0": ["b"]},
    ),
    "to look at a shared device": (
        [slice_of("n1", shared("g")), *claims({}, {"adminAccess": True}, {"adminAccess": True})],
        {"c0": ["g"], "c1": ["g"], "c2": ["g"]},
    ),
    "by whether it is shared": (
        [
            slice_of("n1", device("a"), shared("g")),
            *claims({"selectors": [{"cel": {"expression": "device.allowMultipleAllocations == true"}}]}),
        ],
        {"c0": ["g"]},
    ),
    "all are taken with their counters": (
        [*cards(*SMALL[:2]), *claims({"allocationMode": "All"}, {})],
        {"c0": ["part-0", "part-1"]},
    ),
}


@pytest.mark.parametrize(("things", "wanted"), SHARING.values(), ids=SHARING)
def test_what_devices_share_is_never_given_twice(things: list[Any], wanted: dict[str, list[str]]) -> None:
    assert devices_of(decide(*NODES, device_class(), *things)) == wanted


def test_shares_on_different_devices_where_the_claim_says_so() -> None:
    apart = claim("c", {"count": 2, **asking("10Gi")}, constraints=[{"distinctAttribute": f"{DRIVER}/index"}])
    devices = slice_of("n1", shared("g", index=0), shared("h", index=1))
    assert devices_of(decide(*NODES, device_class(), devices, apart, *user("p", "c"))) == {"c": ["g", "h"]}


def test_an_allocation_says_what_it_consumes_and_names_its_share() -> None:
    things = [device_class(), slice_of("n1", shared("g", policy=HALVES)), *claims(asking("1Gi"), {})]
    needs = [need for bind in decide(*NODES, *things).binds for need in bind.preparations]
    results = [msgspec.to_builtins(need.allocation)["devices"]["results"][0] for need in needs if need.allocation]
    assert [one["consumedCapacity"] for one in results] == [{"memory": "40Gi"}] * 2
    assert len({one["shareID"] for one in results}) == 2


def held(name: str, **result: Any) -> Any:
    """A claim that has a device of n1."""
    found = claim(name, given_to="x")
    whole = {"request": "r0", "driver": DRIVER, "pool": "n1", **result}
    found.status.allocation.devices.results = msgspec.convert([whole], list[DeviceRequestAllocationResult])
    return found


PORTION = {"shareID": "s", "consumedCapacity": {"memory": "40Gi"}}
HELD: dict[str, tuple[list[Any], dict[str, Any], dict[str, list[str]]]] = {
    "a part": ([*cards(BIG, *SMALL), held("d", device="part-2")], of_size("small"), {"c0": ["part-0"]}),
    "the whole card": ([*cards(BIG, *SMALL), held("d", device="whole")], of_size("small"), {}),
    "a share": ([slice_of("n1", shared("g")), held("d", device="g", **PORTION)], asking("30Gi"), {"c0": ["g"]}),
}


@pytest.mark.parametrize(("things", "request_of_each", "wanted"), HELD.values(), ids=HELD)
def test_what_was_allocated_before_counts(
    things: list[Any], request_of_each: dict[str, Any], wanted: dict[str, list[str]]
) -> None:
    decisions = decide(*NODES, device_class(), *things, *claims(request_of_each, request_of_each))
    assert devices_of(decisions) == wanted


def test_devices_that_bind_late_come_last_and_hand_on_their_conditions() -> None:
    late = {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"], "bindsToNode": True}
    fabric = slice_of("", device("a", extra=late), pool="fabric", allNodes=True)
    things = [device_class(), fabric, slice_of("n1", device("b"), pool="local"), *claims({}, {})]
    decisions = decide(*NODES, *things)
    assert devices_of(decisions) == {"c0": ["b"], "c1": ["a"]}
    bound = next(bind for bind in decisions.binds if bind.pod == "p1")
    (need,) = bound.preparations
    assert isinstance(need, ClaimAllocation) and need.allocation is not None
    written = msgspec.to_builtins(need.allocation)
    (result,) = written["devices"]["results"]
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["attached"], ["failed"])
    (term,) = written["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": [bound.node]}]


def test_why_a_claim_waits_for_what_others_share() -> None:
    decisions = decide(*NODES, device_class(), *cards(BIG, *SMALL), held("d", device="whole"), *claims({}))
    verdict = decisions.verdicts["ns/p0"]
    assert dict(verdict.reasons) == LACKING
    assert "share counters or capacity, of which too little is left" in verdict.message


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
    st.integers(1, 8),
)
def test_no_counter_is_overdrawn_and_none_lies_idle(parts: list[int], wanted: list[int], total: int) -> None:
    devices = [part(f"d{at}", f"{size}Gi") for at, size in enumerate(parts)]
    things = [device_class(), *cards(*devices, memory=f"{total}Gi"), *claims(*({"count": count} for count in wanted))]
    given_to = devices_of(decide(*NODES, *things))
    used = [int(name.removeprefix("d")) for names in given_to.values() for name in names]
    assert len(used) == len(set(used))
    assert sum(parts[at] for at in used) <= total
    left, free = total - sum(parts[at] for at in used), sorted(size for at, size in enumerate(parts) if at not in used)
    for at, count in enumerate(wanted):
        assert f"c{at}" in given_to or len(free) < count or sum(free[:count]) > left
