"""Which gang has a port, and which waits for it."""

from __future__ import annotations

from typing import Any

import pytest
from agent_node import manifest
from hypothesis import given
from hypothesis import strategies as st

from support.virtual_clock import VirtualClock
from unisono.agent.network.ports import PORT_TAKEN, Claim, PortBook, claim_of, declared_ports, hold
from unisono.api.core import Pod, PodCondition

NOW = 1_000.0


def claim(pod: str, *ports: int, bound: float, group: str = "", started: bool = False, seen: float = 0.0) -> Claim:
    return Claim(pod, group or pod, frozenset(("TCP", port) for port in ports), bound, seen, started)


def told(uid: str, *claims: Claim, now: float = NOW) -> str | None:
    """The message of the pod ``uid``, None when it may start; pods are known by their names."""
    found = hold(uid, {c.pod: c for c in claims}, now)
    return None if found is None else found.why.message or found.why.reason


def taken(port: int, by: str) -> str:
    return f"port {port} is taken by pod {by}; it starts when that pod ends"


def of_gang(port: int, by: str) -> str:
    return f"port {port} of its gang is taken by pod {by}; it starts when that pod ends"


SCENARIOS: dict[str, tuple[list[Claim], dict[str, str | None]]] = {
    "alone": ([claim("a", 80, bound=1)], {"a": None}),
    "different ports": ([claim("a", 80, bound=1), claim("b", 81, bound=2)], {"a": None, "b": None}),
    "the oldest bound goes first": (
        [claim("a", 80, bound=3), claim("b", 80, bound=1), claim("c", 80, bound=2)],
        {"a": taken(80, "b"), "b": None, "c": taken(80, "b")},
    ),
    "names break ties": ([claim("b", 80, bound=1), claim("a", 80, bound=1)], {"a": None, "b": taken(80, "a")}),
    "who was started keeps its port": (
        [claim("old", 80, bound=1), claim("new", 80, bound=2, started=True)],
        {"old": taken(80, "new"), "new": None},
    ),
    "members of one gang are never kept apart": (
        [claim("a-0", 80, bound=1, group="a", started=True), claim("a-1", 80, bound=1, group="a")],
        {"a-0": None, "a-1": None},
    ),
    "a gang waits as one": (
        [
            claim("a-0", 80, bound=1, group="a", started=True),
            claim("b-head", 80, bound=2, group="b"),
            claim("b-worker", bound=2, group="b"),
        ],
        {"b-head": taken(80, "a-0"), "b-worker": of_gang(80, "a-0")},
    ),
    "two gangs that want two ports of each other": (
        [
            claim("a-ps", 80, bound=1, group="a"),
            claim("a-worker", 81, bound=2, group="a"),
            claim("b-ps", 80, bound=2, group="b"),
            claim("b-worker", 81, bound=1.5, group="b"),
        ],
        {"a-ps": None, "a-worker": None, "b-ps": taken(80, "a-ps"), "b-worker": taken(81, "a-worker")},
    ),
    "the one before waits itself": (
        [
            claim("a", 80, bound=1, started=True),
            claim("b", 80, 81, bound=2),
            claim("c", 81, bound=3),
            claim("d", 82, bound=4),
        ],
        {"b": taken(80, "a"), "c": taken(81, "b"), "d": None},
    ),
    "of a running gang only the newcomer waits": (
        [
            claim("a", 80, bound=1, started=True),
            claim("b-0", 81, bound=2, group="b", started=True),
            claim("b-1", 80, bound=3, group="b"),
            claim("b-2", 81, bound=3, group="b"),
        ],
        {"b-0": None, "b-1": taken(80, "a"), "b-2": None},
    ),
    "a running gang grows before others begin": (
        [
            claim("a-0", 80, bound=1, group="a", started=True),
            claim("b-0", 80, 81, bound=2, group="b"),
            claim("a-1", 81, bound=3, group="a"),
        ],
        {"a-1": None, "b-0": taken(80, "a-0")},
    ),
    "running gangs that want what the other has do not both wait": (
        [
            claim("a-0", 80, bound=1, group="a", started=True),
            claim("b-0", 81, bound=2, group="b", started=True),
            claim("a-1", 81, bound=3, group="a"),
            claim("b-1", 80, bound=4, group="b"),
        ],
        {"a-1": taken(81, "b-0"), "b-1": None},
    ),
    "pods without ports are not concerned": (
        [claim("a", 80, bound=1, started=True), claim("b", bound=2)],
        {"a": None, "b": None},
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_who_waits(name: str) -> None:
    claims, expected = SCENARIOS[name]
    assert {uid: told(uid, *claims) for uid in expected} == expected


def test_the_rest_of_a_gang_is_waited_for_while_others_want_ports() -> None:
    first = claim("a-0", 80, bound=NOW, seen=NOW, group="a")
    other = claim("b-0", 81, bound=NOW, seen=NOW, group="b")
    assert told("a-0", first, now=NOW) is None
    assert told("a-0", first, other, now=NOW) == "ContainerCreating"
    found = hold("a-0", {"a-0": first, "b-0": other}, NOW)
    assert found is not None
    assert found.until == NOW + 1.0
    assert told("a-0", first, other, now=NOW + 1.0) is None


def test_another_protocol_is_another_port() -> None:
    udp = Claim("u", "u", frozenset({("UDP", 80)}), 1.0, 0.0, started=True)
    assert told("t", claim("t", 80, bound=2), udp) is None
    second = Claim("v", "v", frozenset({("UDP", 80)}), 2.0, 0.0)
    assert told("v", second, udp) == "port 80/UDP is taken by pod u; it starts when that pod ends"


PODS = st.lists(
    st.tuples(st.integers(0, 3), st.frozensets(st.integers(1, 4), max_size=3), st.integers(0, 5)),
    min_size=1,
    max_size=12,
)


@given(PODS)
def test_every_pod_runs_in_the_end_and_never_beside_a_rival(pods: list[tuple[int, frozenset[int], int]]) -> None:
    """Gangs that are known in full take their turns: whatever they want, nobody waits for ever."""
    left = {
        f"p{i}": claim(f"p{i}", *ports, bound=float(bound), group=f"g{group}")
        for i, (group, ports, bound) in enumerate(pods)
    }
    while left:
        for uid, c in list(left.items()):
            if not c.started and hold(uid, left, NOW) is None:
                left[uid] = Claim(c.pod, c.group, c.ports, c.bound_at, c.seen_at, started=True)
        running = [c for c in left.values() if c.started]
        assert running, "a deadlock"
        for a in running:
            assert not any(a.ports & b.ports for b in running if a.group != b.group)
        whole = {c.group for c in left.values()} - {c.group for c in left.values() if not c.started}
        assert whole, "gangs of which parts wait for each other"
        left = {uid: c for uid, c in left.items() if c.group not in whole}


def pod(name: str, *ports: dict[str, Any], uid: str = "", group: str = "", **spec: Any) -> Pod:
    metadata: dict[str, Any] = {"uid": uid or name}
    if group:
        metadata["annotations"] = {"scheduling.k8s.io/group-name": group}
    return manifest(name, ["x"], container={"ports": list(ports)}, metadata=metadata, **spec)


def test_declared_ports() -> None:
    declaring = pod(
        "p",
        {"containerPort": 80},
        {"containerPort": 80, "protocol": "UDP"},
        {"containerPort": 81, "hostPort": 8081},
        initContainers=[{"name": "i", "command": ["y"], "ports": [{"containerPort": 82}]}],
    )
    expected = {("TCP", 80), ("UDP", 80), ("TCP", 81), ("TCP", 8081), ("TCP", 82)}
    assert declared_ports(declaring) == expected
    assert declared_ports(manifest("p", ["x"])) == frozenset()


def test_claims_know_group_and_time_of_binding() -> None:
    bound = pod("p", {"containerPort": 80}, group="g")
    assert claim_of(bound, 5.0, started=True) == Claim(
        "default/p", "default/g", frozenset({("TCP", 80)}), 5.0, 5.0, True
    )
    for stamp, expected in (("2023-11-14T22:13:20Z", 1_700_000_000.0), ("yesterday", 5.0), (None, 5.0)):
        bound.status.conditions = [PodCondition(type="PodScheduled", status="True", last_transition_time=stamp)]
        assert claim_of(bound, 5.0, started=False).bound_at == expected
    assert claim_of(pod("q"), 5.0, started=False).group == "pod default/q"


def test_the_book_wakes_who_waits() -> None:
    clock = VirtualClock()
    book, woken = PortBook(clock, own_ports=False), []
    seen = clock.time() - 10.0
    for name in ("first", "second"):
        book.add(pod(name, {"containerPort": 80}), seen, started=False)
    assert book.hold("first", lambda: woken.append("first")) is None
    found = book.hold("second", lambda: woken.append("second"))
    assert found is not None
    assert (found.why.reason, found.until) == (PORT_TAKEN, None)
    book.started("first")
    book.remove("first")
    assert set(woken) == {"second"}
    assert book.hold("second", woken.clear) is None
    book.remove("second")
    assert woken


@pytest.mark.parametrize(("host_network", "waits"), [(False, False), (True, True)])
def test_pods_with_ports_of_their_own_do_not_wait(host_network: bool, waits: bool) -> None:
    clock = VirtualClock()
    book = PortBook(clock, own_ports=True)
    for name in ("first", "second"):
        one = pod(name, {"containerPort": 80}, hostNetwork=host_network)
        book.add(one, clock.time() - 10.0, started=name == "first")
    assert (book.hold("second", lambda: None) is not None) is waits
