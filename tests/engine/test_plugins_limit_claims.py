"""Extended resources that device classes serve: claims that stand for limits, and one book for claims and limits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import cluster, config, group, node, pod, schedule
from support.examples import examples
from unisono.api import kinds
from unisono.api.core import DeviceClass, PodResourceClaim, ResourceClaim, ResourceSlice
from unisono.cluster.state import ClusterState
from unisono.engine.decisions import ClaimAllocation, Decisions

SETTINGS = config(("gang",), ("predicates",))
DRIVER, GPU = "gpu.example.com", "example.com/gpu"
KINDS = {
    ResourceSlice: kinds.RESOURCE_SLICES,
    DeviceClass: kinds.DEVICE_CLASSES,
    ResourceClaim: kinds.RESOURCE_CLAIMS,
}


def devices(where: str, *names: str, taken: str = "") -> ResourceSlice:
    found: list[dict[str, Any]] = [{"name": name} for name in names]
    for each in found:
        if each["name"] == taken:
            each["taints"] = [{"key": "unisono.io/given-by-limit", "effect": "NoSchedule"}]
    spec = {
        "driver": DRIVER,
        "nodeName": where,
        "pool": {"name": where, "generation": 1, "resourceSliceCount": 1},
        "devices": found,
    }
    return msgspec.convert({"metadata": {"name": f"slice-{where}"}, "spec": spec}, ResourceSlice)


def serving(resource: str | None = GPU, name: str = "gpu") -> DeviceClass:
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    spec = {"selectors": selectors, "extendedResourceName": resource}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, DeviceClass)


def claim(
    name: str, count: int = 1, *, limit: bool = False, has: tuple[str, ...] = (), at: str = "n1"
) -> ResourceClaim:
    request = "container-0-request-0" if limit else "r"
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    results = [{"request": request, "driver": DRIVER, "pool": at, "device": one} for one in has]
    fields = [{"key": "metadata.name", "operator": "In", "values": [at]}]
    allocation = {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    notes = {"resource.kubernetes.io/extended-resource-claim": "true"} if limit else None
    value = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": notes},
        "spec": {"devices": {"requests": [{"name": request, "exactly": exactly}]}},
        "status": {"allocation": allocation} if has else {},
    }
    return msgspec.convert(value, ResourceClaim)


def asks(
    name: str, count: int = 1, *, by: str = "", created: float = 0.0, on: str = "", resource: str = GPU
) -> list[Any]:
    """A pod with a limit; ``by`` names the claim that stands for it."""
    member = pod(name, name, cpu=1, created=created, node=on, **{resource: count})
    if by:
        mapping = {"containerName": "main", "resourceName": resource, "requestName": "container-0-request-0"}
        told = {"requestMappings": [mapping], "resourceClaimName": by}
        value = msgspec.to_builtins(member)
        value["status"]["extendedResourceClaimStatus"] = told
        member = msgspec.convert(value, type(member))
    return [group(name), member]


def claims(name: str, *wanted: str, created: float = 0.0) -> list[Any]:
    member = pod(name, name, cpu=1, created=created)
    member.spec.resource_claims = [PodResourceClaim(name=one, resource_claim_name=one) for one in wanted]
    return [group(name), member]


def world(*things: Any) -> ClusterState:
    state = cluster([thing for thing in things if type(thing) not in KINDS])
    for thing in things:
        if type(thing) in KINDS:
            state.apply("ADDED", KINDS[type(thing)], thing)
    return state


def decide(*things: Any) -> Decisions:
    decisions = schedule(world(*things), SETTINGS)
    assert not decisions.violations
    return decisions


def given_devices(decisions: Decisions) -> dict[str, list[str]]:
    return {
        need.claim: [result.device for result in need.allocation.devices.results or ()]
        for bind in decisions.binds
        for need in bind.preparations
        if isinstance(need, ClaimAllocation) and need.allocation is not None
    }


BARE = node("n1", cpu=9)
PLUGGED = node("n1", cpu=9, **{GPU: 2})
AWAITED = "waiting for the resource claims of the pod to be created"
SHORT = f"Insufficient {GPU}"

SERVED: dict[str, tuple[list[Any], dict[str, str], dict[str, list[str]], dict[str, dict[str, int]]]] = {
    # things; pod to node; claim to devices; pod to reasons
    "a limit is served by a claim": (
        [BARE, serving(), devices("n1", "a", "b"), claim("c", 2, limit=True), *asks("p", 2, by="c")],
        {"p": "n1"},
        {"c": ["a", "b"]},
        {},
    ),
    "the pod waits for its claim": (
        [BARE, serving(), devices("n1", "a"), *asks("p")],
        {},
        {},
        {"p": {AWAITED: 1}},
    ),
    "no class serves the resource": (
        [BARE, serving(None), devices("n1", "a"), *asks("p")],
        {},
        {},
        {"p": {SHORT: 1}},
    ),
    "more than the node has": (
        [BARE, serving(), devices("n1", "a"), claim("c", 2, limit=True), *asks("p", 2, by="c")],
        {},
        {},
        {"p": {SHORT: 1}},
    ),
    "a device that an ordinary claim has is not given": (
        [
            BARE,
            serving(),
            devices("n1", "a", "b"),
            claim("old", has=("a",)),
            claim("c", 2, limit=True),
            *asks("p", 2, by="c"),
        ],
        {},
        {},
        {"p": {"cannot allocate all claims": 1}},
    ),
    "a claim takes what limits leave": (
        [
            BARE,
            serving(),
            devices("n1", "a", "b"),
            claim("c", 1, limit=True),
            claim("d"),
            *asks("p", by="c"),
            *claims("q", "d", created=1.0),
        ],
        {"p": "n1", "q": "n1"},
        {"c": ["a"], "d": ["b"]},
        {},
    ),
    "the name that every class has": (
        [
            BARE,
            serving(None),
            devices("n1", "a"),
            claim("c", 1, limit=True),
            *asks("p", by="c", resource="deviceclass.resource.kubernetes.io/gpu"),
        ],
        {"p": "n1"},
        {"c": ["a"]},
        {},
    ),
    "a node that reports the resource needs no claim": (
        [PLUGGED, serving(), devices("n1", "a", "b"), *asks("p", 2)],
        {"p": "n1"},
        {},
        {},
    ),
    "what a claim has is missing for limits": (
        [PLUGGED, serving(), devices("n1", "a", "b"), claim("old", has=("a",)), *asks("p", 2), *asks("q", created=1.0)],
        {"q": "n1"},
        {},
        {"p": {SHORT: 1}},
    ),
    "what limits have is missing for claims": (
        [PLUGGED, serving(), devices("n1", "a", "b"), *asks("old", 2, on="n1"), claim("c"), *claims("p", "c")],
        {},
        {},
        {"p": {"cannot allocate all claims": 1}},
    ),
    "a claim gets the card that no pod has by a limit": (
        [
            PLUGGED,
            serving(),
            devices("n1", "a", "b", taken="a"),
            *asks("old", on="n1"),
            claim("c"),
            *claims("p", "c"),
        ],
        {"p": "n1"},
        {"c": ["b"]},
        {},
    ),
    "a limit after a claim in the same cycle": (
        [
            PLUGGED,
            serving(),
            devices("n1", "a", "b"),
            claim("c"),
            *claims("p", "c"),
            *asks("q", 2, created=1.0),
            *asks("r", created=2.0),
        ],
        {"p": "n1", "r": "n1"},
        {"c": ["a"]},
        {"q": {SHORT: 1}},
    ),
    "a claim after a limit in the same cycle": (
        [PLUGGED, serving(), devices("n1", "a", "b"), *asks("p", 2), claim("c"), *claims("q", "c", created=1.0)],
        {"p": "n1"},
        {},
        {"q": {"cannot allocate all claims": 1}},
    ),
}


@pytest.mark.parametrize(("things", "nodes", "gifts", "reasons"), SERVED.values(), ids=SERVED)
def test_limits_and_claims_are_one_book(
    things: list[Any], nodes: dict[str, str], gifts: dict[str, list[str]], reasons: dict[str, dict[str, int]]
) -> None:
    decisions = decide(*things)
    assert {bind.pod: bind.node for bind in decisions.binds} == nodes
    assert given_devices(decisions) == gifts
    assert {name: dict(decisions.verdicts[f"ns/{name}"].reasons) for name in reasons} == reasons


def test_devices_come_and_go_with_slices_classes_and_claims() -> None:
    state = world(BARE, PLUGGED_TOO)

    def amounts() -> list[int]:
        table = state.snapshot().nodes
        row = state.registry.find(GPU)
        return [int(amount) // 1000 for amount in table.allocatable[row]] if row is not None else []

    assert amounts() == [0, 2]
    state.apply("ADDED", kinds.RESOURCE_SLICES, devices("n1", "a", "b", "c"))
    assert amounts() == [0, 2]
    state.apply("ADDED", kinds.DEVICE_CLASSES, serving())
    assert amounts() == [3, 2]
    state.apply("ADDED", kinds.RESOURCE_SLICES, devices("n2", "a", "b"))
    held = claim("c", has=("a",), at="n2")
    state.apply("ADDED", kinds.RESOURCE_CLAIMS, held)
    assert amounts() == [3, 1]
    state.apply("MODIFIED", kinds.NODES, node("n2", cpu=8, **{GPU: 4}))
    assert amounts() == [3, 3]
    state.apply("DELETED", kinds.RESOURCE_CLAIMS, held)
    assert amounts() == [3, 4]
    state.apply("DELETED", kinds.DEVICE_CLASSES, serving())
    assert amounts() == [0, 4]


PLUGGED_TOO = node("n2", cpu=9, **{GPU: 2})


@given(
    st.lists(st.tuples(st.sampled_from(["limit", "claim"]), st.integers(1, 3)), min_size=1, max_size=7),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=examples(60), deadline=None)
def test_no_device_is_given_twice(wanted: list[tuple[str, int]], there: int, plugged: bool) -> None:
    """Over several cycles, in any order: devices of claims and limits together are never more than there are."""
    names = [f"g{number}" for number in range(there)]
    where = node("n1", cpu=99, **({GPU: there} if plugged else {}))
    state = world(where, serving(), devices("n1", *names))
    by_limit = by_claim = 0
    for number, (way, count) in enumerate(wanted):
        key = f"c{number}"
        if way == "claim" or not plugged:
            state.apply("ADDED", kinds.RESOURCE_CLAIMS, claim(key, count, limit=way == "limit"))
        jobs = asks(f"p{number}", count, by="" if plugged else key) if way == "limit" else claims(f"p{number}", key)
        for thing in jobs:
            state.apply("ADDED", kinds.POD_GROUPS if thing is jobs[0] else kinds.PODS, thing)
        decisions = schedule(state, SETTINGS)
        assert not decisions.violations
        for bind in decisions.binds:
            state.assume(f"ns/{bind.pod}", bind.node)
            for need in bind.preparations:
                assert isinstance(need, ClaimAllocation)
                assert need.allocation is not None
                results = need.allocation.devices.results or ()
                by_claim += len(results)
                limit = way == "limit"
                has = tuple(one.device for one in results)
                state.apply("MODIFIED", kinds.RESOURCE_CLAIMS, claim(need.claim, count, limit=limit, has=has))
            by_limit += count if plugged and way == "limit" else 0
        fits = by_limit + by_claim
        assert fits <= there
        if not decisions.binds:
            assert fits + count > there
