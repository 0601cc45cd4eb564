"""Device claims: selectors, which devices are given, where pods go and what is written."""

from __future__ import annotations

import itertools
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import START, cluster, config, group, node, pod, schedule
from support.examples import examples
from unisono.api import kinds
from unisono.api.core import Device, DeviceClass, PodResourceClaim, ResourceClaim, ResourceSlice
from unisono.cluster.devices import SelectorError, compile_selector, facts_of
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.decisions import ClaimAllocation, Decisions
from unisono.engine.plugins.predicates.resource_claims import ClaimFilter
from unisono.engine.verdict import Cause

SETTINGS = config(("gang",), ("predicates",))
DRIVER = "gpu.example.com"


def device(name: str, **given_attributes: Any) -> dict[str, Any]:
    names = {bool: "bool", int: "int", str: "string"}
    memory = given_attributes.pop("memory", None)
    extra = given_attributes.pop("extra", {})
    attributes = {key: {names[type(value)]: value} for key, value in given_attributes.items()}
    capacity = {"memory": {"value": memory}} if memory else None
    return {"name": name, "attributes": attributes, "capacity": capacity, **extra}


A_DEVICE = msgspec.convert(device("g", model="A100", index=3, shared=True, memory="40Gi"), Device)

SELECTED: dict[str, bool] = {
    f"device.driver == '{DRIVER}'": True,
    'device.driver == "other"': False,
    f"device.attributes['{DRIVER}'].model == 'A100'": True,
    f"device.attributes['{DRIVER}'].model != 'A100'": False,
    f"device.attributes['{DRIVER}'].index > 2 && device.attributes['{DRIVER}'].index <= 3": True,
    f"device.attributes['{DRIVER}'].index == -3": False,
    f"device.attributes['{DRIVER}'].shared": True,
    f"!device.attributes['{DRIVER}'].shared": False,
    f"device.attributes['{DRIVER}'].model in ['H100', 'A100']": True,
    f"'model' in device.attributes['{DRIVER}']": True,
    f"has(device.attributes['{DRIVER}'].nothing)": False,
    f"has(device.attributes['{DRIVER}'].nothing) || device.driver.startsWith('gpu')": True,
    f"device.attributes['{DRIVER}'].nothing == 1 || true": True,
    f"device.attributes['{DRIVER}'].nothing == 1": False,
    "device.attributes['elsewhere'].model == 'A100'": False,
    f"device.attributes['{DRIVER}'].model.contains('100') && device.driver.endsWith('.com')": True,
    f"device.attributes['{DRIVER}'].model.lowerAscii() == 'a100'": True,
    f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0": True,
    f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('40Gi'))": False,
    f"device.capacity['{DRIVER}'].memory == quantity('40960Mi')": True,
    f"(device.attributes['{DRIVER}'].index + 1) == 4": True,
    f"device.attributes['{DRIVER}'].index == true": False,
    f"device.attributes['{DRIVER}'].model.matches('^A[0-9]+$')": True,
    f"device.attributes['{DRIVER}'].index > 2 ? true : false": True,
    f"device.attributes['{DRIVER}'].?nothing.orValue(7) == 7": True,
    f"[3, 4].exists(x, x == device.attributes['{DRIVER}'].index)": True,
    f"cel.bind(own, device.attributes['{DRIVER}'], own.index == 3 && own.shared)": True,
    "semver('1.10.0').isGreaterThan(semver('1.9.0'))": True,
}


@pytest.mark.parametrize(("text", "selected"), SELECTED.items(), ids=SELECTED)
def test_selectors(text: str, selected: bool) -> None:
    assert compile_selector(text).selects(facts_of(DRIVER, A_DEVICE, b"")) is selected


@pytest.mark.parametrize(
    "text",
    [
        "device.driver ==",
        "(device.driver",
        "claim.name == 'a'",
        "device.driver.shout()",
        "!" * 5 + "(" * 80 + "true" + ")" * 80,
        f"device.driver == '{'x' * 11_000}'",
    ],
)
def test_what_cannot_be_compiled_is_refused_when_read(text: str) -> None:
    with pytest.raises(SelectorError, match="cannot be compiled"):
        compile_selector(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"device.attributes['{DRIVER}'].model", "it must answer a bool"),
        (f"device.attributes['{DRIVER}'].model < 3", "no such overload"),
        ("quantity('ten') == quantity('10')", "ten"),
        ("1 / 0 == 1", "division by zero"),
    ],
)
def test_a_selector_without_an_answer_is_an_error(text: str, why: str) -> None:
    with pytest.raises(SelectorError, match=why):
        compile_selector(text).selects(facts_of(DRIVER, A_DEVICE, b""))


def test_a_selector_that_costs_too_much_is_cut_off_and_not_asked_again() -> None:
    numbers = ",".join(["1"] * 500)
    selector = compile_selector(f"[{numbers}].all(a, [{numbers}].all(b, [{numbers}].all(c, a + b + c > 0)))")
    for name in (b"a", b"b"):
        with pytest.raises(SelectorError, match="actual cost limit exceeded"):
            selector.selects(facts_of(DRIVER, A_DEVICE, name))
    assert selector._asked == 1


# ---- a cluster with devices


def slice_of(where: str, *devices: dict[str, Any], pool: str = "", count: int = 1, **spec: Any) -> Any:
    return msgspec.convert(
        {
            "metadata": {"name": f"slice-{pool or where}-{spec.get('generation', 1)}"},
            "spec": {
                "driver": DRIVER,
                "pool": {
                    "name": pool or where,
                    "generation": spec.pop("generation", 1),
                    "resourceSliceCount": count,
                },
                **({"nodeName": where} if where else {}),
                "devices": list(devices),
                **spec,
            },
        },
        ResourceSlice,
    )


def device_class(name: str = "gpu", *selectors: str) -> Any:
    chosen = [{"cel": {"expression": text}} for text in selectors or (f"device.driver == '{DRIVER}'",)]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"selectors": chosen}}, DeviceClass)


def claim(name: str, *requests: dict[str, Any], given_to: str = "", **parts: Any) -> Any:
    wanted = [
        {
            "name": f"r{index}",
            **({"exactly": {"deviceClassName": "gpu", **one}} if "firstAvailable" not in one else one),
        }
        for index, one in enumerate(requests or ({},))
    ]
    result = {"request": "r0", "driver": DRIVER, "pool": "n1", "device": given_to}
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"uid-{name}",
                "deletionTimestamp": parts.pop("deleted", None),
            },
            "spec": {"devices": {"requests": wanted, **parts}},
            "status": {"allocation": allocation} if given_to else {},
        },
        ResourceClaim,
    )


def user(name: str, *claims: str, created: float = 0.0) -> list[Any]:
    member = pod(name, name, cpu=1, created=created)
    member.spec.resource_claims = [PodResourceClaim(name=key, resource_claim_name=key) for key in claims]
    return [group(name), member]


_KINDS = {
    ResourceSlice: kinds.RESOURCE_SLICES,
    DeviceClass: kinds.DEVICE_CLASSES,
    ResourceClaim: kinds.RESOURCE_CLAIMS,
}


def world(*things: Any) -> ClusterState:
    state = cluster([thing for thing in things if type(thing) not in _KINDS])
    for thing in things:
        if type(thing) in _KINDS:
            state.apply("ADDED", _KINDS[type(thing)], thing)
    return state


def decide(*things: Any) -> Decisions:
    decisions = schedule(world(*things), SETTINGS)
    assert not decisions.violations
    return decisions


def devices_of(decisions: Decisions) -> dict[str, list[str]]:
    """Claim to devices."""
    found: dict[str, list[str]] = {}
    for bind in decisions.binds:
        for need in bind.preparations:
            if isinstance(need, ClaimAllocation) and need.allocation is not None:
                found[need.claim] = [result.device for result in need.allocation.devices.results or ()]
    return found


NODES = [node("n1", cpu=9), node("n2", cpu=9)]
BIG = f"device.attributes['{DRIVER}'].size == 'big'"


def test_a_claim_gets_a_device_with_its_node() -> None:
    decisions = decide(*NODES, slice_of("n2", device("g0")), device_class(), claim("c"), *user("p", "c"))
    (bind,) = decisions.binds
    assert bind.node == "n2"
    (need,) = bind.preparations
    assert isinstance(need, ClaimAllocation)
    assert need.allocation is not None
    assert msgspec.to_builtins(need.allocation) == {
        "devices": {"results": [{"request": "r0", "driver": DRIVER, "pool": "n2", "device": "g0"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
        },
    }


THREE = slice_of("n1", device("a"), device("b"), device("c"))
TWO = slice_of("n1", device("a"), device("b"))
GIVEN: dict[str, tuple[list[Any], dict[str, list[str]]]] = {
    "two of them": (
        [slice_of("n1", device("a"), device("b"), device("c")), claim("c", {"count": 2})],
        {"c": ["a", "b"]},
    ),
    "all of them": (
        [slice_of("n1", device("a"), device("b")), claim("c", {"allocationMode": "All"})],
        {"c": ["a", "b"]},
    ),
    "by selector": (
        [
            slice_of("n1", device("a", size="small"), device("b", size="big")),
            claim("c", {"selectors": [{"cel": {"expression": BIG}}]}),
        ],
        {"c": ["b"]},
    ),
    "the second choice": (
        [
            slice_of("n1", device("a", size="small")),
            claim(
                "c",
                {
                    "firstAvailable": [
                        {"name": "x", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": BIG}}]},
                        {"name": "y", "deviceClassName": "gpu"},
                    ]
                },
            ),
        ],
        {"c": ["a"]},
    ),
    "of one kind": (
        [
            slice_of("n1", device("a", numa=0), device("b", numa=1), device("c", numa=1)),
            claim("c", {}, {}, constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
        ],
        {"c": ["b", "c"]},
    ),
    "what is left": ([slice_of("n1", device("a"), device("b")), claim("d", given_to="a"), claim("c")], {"c": ["b"]}),
    "what is in use, to look at it": (
        [slice_of("n1", device("a")), claim("d", given_to="a"), claim("c", {"adminAccess": True})],
        {"c": ["a"]},
    ),
    "the newest generation": (
        [slice_of("n1", device("old")), slice_of("n1", device("new"), generation=2), claim("c")],
        {"c": ["new"]},
    ),
    "from the network": ([slice_of("", device("a"), pool="net", allNodes=True), claim("c")], {"c": ["a"]}),
}


@pytest.mark.parametrize(("things", "wanted"), GIVEN.values(), ids=GIVEN)
def test_which_devices_are_given(things: list[Any], wanted: dict[str, list[str]]) -> None:
    assert devices_of(decide(*NODES, device_class(), *things, *user("p", "c"))) == wanted


NO_EXECUTE = {"taints": [{"key": "broken", "effect": "NoExecute"}]}
COUNTED = {"consumesCounters": [{"counterSet": "s", "counters": {"x": {"value": "1"}}}]}
LACKING = {"cannot allocate all claims": 2}
REFUSED: dict[str, tuple[list[Any], dict[str, int]]] = {
    "no such claim": ([], {'resourceclaim "c" not found': 2}),
    "a claim that goes": (
        [claim("c", deleted="2026-01-01T00:00:00Z")],
        {'resourceclaim "c" is being deleted': 2},
    ),
    "no such class": (
        [claim("c", {"deviceClassName": "tpu"})],
        {"request r0: device class tpu does not exist": 2},
    ),
    "a selector that cannot be compiled": (
        [claim("c", {"selectors": [{"cel": {"expression": "device.driver.shout()"}}]})],
        {
            "request r0: a device selector cannot be compiled: undeclared reference to 'shout' (in container '')": 2,
        },
    ),
    "no device": ([claim("c")], LACKING),
    "too few": ([slice_of("n1", device("a")), claim("c", {"count": 2})], LACKING),
    "all are taken": ([slice_of("n1", device("a")), claim("d", given_to="a"), claim("c")], LACKING),
    "not all are free": (
        [slice_of("n1", device("a"), device("b")), claim("d", given_to="a"), claim("c", {"allocationMode": "All"})],
        LACKING,
    ),
    "a pool that is not complete": ([slice_of("n1", device("a"), count=2), claim("c")], LACKING),
    "a broken device": ([slice_of("n1", device("a", extra=NO_EXECUTE)), claim("c")], LACKING),
    "a part of a device without its counter": ([slice_of("n1", device("a", extra=COUNTED)), claim("c")], LACKING),
    "kinds that differ": (
        [
            slice_of("n1", device("a", numa=0), device("b", numa=1)),
            claim("c", {"count": 2}, constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
        ],
        LACKING,
    ),
}


@pytest.mark.parametrize("timed", [False, True], ids=["", "timed"])
@pytest.mark.parametrize(("things", "reasons"), REFUSED.values(), ids=REFUSED)
def test_why_a_pod_waits(things: list[Any], reasons: dict[str, int], timed: bool) -> None:
    """Also where the time of plug-ins is taken, as a running scheduler does."""
    state = world(*NODES, device_class(), *things, *user("p", "c"))
    decisions = run(state.snapshot(), SETTINGS, START, monotonic=itertools.count().__next__ if timed else None)
    assert not decisions.binds
    assert dict(decisions.verdicts["ns/p"].reasons) == reasons


def test_a_taint_that_is_tolerated() -> None:
    tolerant = claim("c", {"tolerations": [{"key": "broken", "operator": "Exists"}]})
    things = [device_class(), slice_of("n1", device("a", extra=NO_EXECUTE)), tolerant]
    assert devices_of(decide(*NODES, *things, *user("p", "c"))) == {"c": ["a"]}


def test_a_claim_that_has_its_device_binds_pods_to_its_node() -> None:
    decisions = decide(*NODES, device_class(), claim("c", given_to="a"), *user("p", "c"), *user("q", "c"))
    assert {bind.pod: bind.node for bind in decisions.binds} == {"p": "n1", "q": "n1"}
    assert [bind.preparations for bind in decisions.binds] == [(ClaimAllocation("ns", "c", "uid-c"),)] * 2


def test_a_claim_of_two_pods_is_allocated_once_and_a_device_is_given_once() -> None:
    things = [*NODES, device_class(), slice_of("n2", device("a"), device("b")), claim("c"), claim("d"), claim("e")]
    jobs = [*user("p", "c"), *user("q", "c", created=1.0), *user("r", "d", created=2.0), *user("s", "e", created=3.0)]
    decisions = decide(*things, *jobs)
    assert {bind.pod: bind.node for bind in decisions.binds} == {"p": "n2", "q": "n2", "r": "n2"}
    assert devices_of(decisions) == {"c": ["a"], "d": ["b"]}
    assert dict(decisions.verdicts["ns/s"].reasons) == LACKING


def test_a_gang_that_fails_gives_its_devices_back() -> None:
    things = [*NODES, device_class(), slice_of("n1", device("a")), claim("c"), claim("d")]
    members = [*user("g1", "c")[1:], *user("g2", "d")[1:]]
    for member in members:
        member.metadata.annotations = {"scheduling.k8s.io/group-name": "g"}
    decisions = decide(*things, group("g", 2), *members, *user("p", "d", created=9.0))
    assert devices_of(decisions) == {"d": ["a"]}
    assert [bind.pod for bind in decisions.binds] == ["p"]


def test_a_claim_of_a_template_is_waited_for() -> None:
    member = user("p", "c")
    member[1].spec.resource_claims = [PodResourceClaim(name="c", resource_claim_template_name="t")]
    decisions = decide(*NODES, *member)
    assert dict(decisions.verdicts["ns/p"].reasons) == {"waiting for the resource claims of the pod to be created": 2}


requests = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 3]), st.sampled_from(["", "big", "small"])), min_size=1, max_size=3
)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["big", "small"]), st.integers(0, 1)), max_size=5), requests, st.booleans())
def test_a_solution_is_found_if_there_is_one(
    have: list[tuple[str, int]], wanted: list[tuple[int, str]], same: bool
) -> None:
    devices = [device(f"g{index}", size=size, numa=numa) for index, (size, numa) in enumerate(have)]
    asked = []
    for count, size in wanted:
        selectors = [{"cel": {"expression": f"device.attributes['{DRIVER}'].size == '{size}'"}}] if size else None
        asked.append(
            {"count": count, "selectors": selectors} if count else {"allocationMode": "All", "selectors": selectors}
        )
    constraints = [{"matchAttribute": f"{DRIVER}/numa"}] if same else None
    things = [device_class(), slice_of("n1", *devices), claim("c", *asked, constraints=constraints)]
    decisions = decide(*NODES, *things, *user("p", "c"))

    def possible(left: frozenset[int], rest: list[tuple[int, str]], chosen: tuple[int, ...]) -> bool:
        if not rest:
            return not same or len({have[index][1] for index in chosen}) <= 1
        count, size = rest[0]
        fitting = [index for index in range(len(have)) if not size or have[index][0] == size]
        if not count:
            ways = [tuple(fitting)] if fitting and left >= set(fitting) else []
        else:
            ways = list(combinations([index for index in fitting if index in left], count))
        return any(possible(left - set(way), rest[1:], (*chosen, *way)) for way in ways)

    assert bool(decisions.binds) == possible(frozenset(range(len(have))), wanted, ())
    for names in devices_of(decisions).values():
        assert len(names) == len(set(names))


@pytest.mark.parametrize("breaks", ["by its selector", "by a fault of the plug-in"])
def test_a_hostile_claim_switches_no_filter_off(breaks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taints, selectors and cordons hold for everybody else, and the claim's pod waits with a verdict."""
    deep = "(" * 10_000 + "true" + ")" * 10_000 if breaks == "by its selector" else "true"
    if breaks != "by its selector":

        def fail(*_: Any) -> Any:
            raise RecursionError("maximum recursion depth exceeded")

        monkeypatch.setattr(ClaimFilter, "vetoes", fail)
    selective = [group("picky"), pod("picky", "picky", cpu=1, selector={"disk": "ssd"}, created=2)]
    things = [
        node("a-tainted", cpu=9, taints=[("only", "", "NoSchedule")]),
        node("b-cordoned", cpu=9, unschedulable=True),
        node("n1", cpu=9),
        node("z-ssd", cpu=9, labels={"disk": "ssd"}),
        device_class(),
        slice_of("n1", device("g0")),
        claim("c", {"selectors": [{"cel": {"expression": deep}}]}),
        *user("hostile", "c"),
        *selective,
        *(each for at in range(5) for each in user(f"plain-{at}", created=3 + at)),
    ]
    decisions = schedule(world(*things), SETTINGS)
    where = {bind.pod: bind.node for bind in decisions.binds}
    assert where.pop("picky") == "z-ssd"
    assert len(where) == 5
    assert set(where.values()) <= {"n1", "z-ssd"}
    assert list(decisions.verdicts) == ["ns/hostile"]
    verdict = decisions.verdicts["ns/hostile"]
    if breaks == "by its selector":
        assert not decisions.plugin_failures
    else:
        assert verdict.cause is Cause.PLUGIN_FAILED
        assert verdict.message == (
            "plug-in predicates failed in domain_filter for job ns/hostile: "
            "RecursionError: maximum recursion depth exceeded"
        )
