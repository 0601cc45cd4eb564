"""Elastic jobs: who grows, who makes room, and that limits hold, nothing swings and everything comes to rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.api.verdict import Cause
from unisono.controllers.elastic.decide import Elastic, Extra, plan
from unisono.controllers.node_scaling.decide import Demand, Helped, Pool, Room

GPU = "nvidia.com/gpu"
NOW = 10_000.0


def pods(gpus: int = 1, count: int = 1) -> Demand:
    return Demand({GPU: gpus * 1000}, count=count)


def room(name: str, free: int, of: int = 8) -> Room:
    return Room(Pool(name, 1, 0, 1, {GPU: of * 1000}), {GPU: free * 1000})


def job(key: str, on: str, least: int = 1, most: int = 8, **more: object) -> Elastic:
    """A job with one replica per letter of ``on``, on the node of that letter; a dot is a replica without a place."""
    places = tuple(() if each == "." else (each,) for each in on)
    return replace(Elastic(key, len(on), least, most, pods(), places), **more)  # type: ignore[arg-type]


RECENT = {"changed": NOW - 60}
GANG = ("g", [pods(count=2)])


@pytest.mark.parametrize(
    ("jobs", "gangs", "rooms", "expected"),
    [
        ([job("a", "xx")], [], [room("x", 6)], {"a": 8}),
        ([job("a", "xx", most=5)], [], [room("x", 6)], {"a": 5}),
        ([job("a", "xx"), job("b", "xxxx")], [], [room("x", 2)], {"a": 4}),
        ([job("a", "xx")], [GANG], [room("x", 6)], {"a": 6}),
        ([job("a", "xx", **RECENT)], [], [room("x", 6)], {}),
        ([job("a", "xx", cool_down=60.0, **RECENT)], [], [room("x", 6)], {"a": 8}),
        ([job("a", "xx.")], [], [room("x", 6)], {}),
        ([job("a", "xx", replicas=3)], [], [room("x", 6)], {}),
        ([job("a", "xxxxxxxx")], [GANG], [room("x", 0)], {"a": 6}),
        ([job("a", "xxxxxxxx", least=7)], [GANG], [room("x", 0)], {}),
        ([job("a", "xxxxxxxx", least=7)], [GANG], [room("x", 1)], {"a": 7}),
        ([job("a", "xxxxxxxx", **RECENT)], [GANG], [room("x", 0)], {"a": 6}),
        ([job("a", "xxxxxxxx", changed=NOW - 5)], [GANG], [room("x", 0)], {}),
        ([job("a", "xxx"), job("b", "xxxxx")], [GANG], [room("x", 0)], {"b": 3}),
        ([job("a", "xxxyyy")], [("g", [pods(4)])], [room("x", 5), room("y", 1)], {"a": 8}),
        ([job("a", "yyyxxx")], [("g", [pods(7)])], [room("x", 5), room("y", 5)], {"a": 4}),
        ([job("a", "xxxx"), job("b", "yyyy")], [("g", [pods(6)])], [room("x", 0), room("y", 4)], {"b": 2}),
        ([job("a", "xxx")], [("far too large", [pods(count=99)])], [room("x", 5)], {"a": 8}),
        ([job("a", "xx..")], [GANG], [room("x", 1)], {"a": 1}),
    ],
    ids=[
        "into what is idle",
        "no further than it can use",
        "who has the least first",
        "not where a gang is about to go",
        "not in the cool-down",
        "its own cool-down",
        "not while a replica waits",
        "not while a replica is missing",
        "room for a gang",
        "never below the minimum",
        "what is free counts",
        "shrinks in the cool-down",
        "not while the last change settles",
        "who has the most gives",
        "a gang that fits takes nothing away",
        "only as many as help",
        "those that help, not those that come first",
        "a hopeless gang keeps nobody small",
        "those without a place go with it",
    ],
)
def test_replicas(
    jobs: list[Elastic], gangs: list[tuple[str, list[Demand]]], rooms: list[Room], expected: dict[str, int]
) -> None:
    assert plan(jobs, gangs, rooms, NOW).replicas == expected


def extra(name: str, priority: int = 10, gpus: int = 1) -> Extra:
    """A pod ``GROUP-...`` that waits beyond the minimum of its group."""
    return Extra(name, name.partition("-")[0], pods(gpus), priority)


def test_who_was_helped_in_vain_is_helped_again_after_pauses_that_double() -> None:
    """It waits for more than nodes: licences, say, which its verdict names only once there is room."""
    helped, times, cause = Helped(60, 300), list[float](), Cause.NODES_FULL
    for now in range(0, 1200, 10):
        resting = helped.resting({"g": cause}.__getitem__, now)
        full = [job("a", "xxxxxxxx")] if cause is Cause.NODES_FULL else []
        answer = plan(full, [GANG], [room("x", 0)], now, resting=resting)
        helped.add(answer.helped, now)
        times += [now] if answer.replicas else []
        cause = Cause.LICENSES if answer.replicas else Cause.NODES_FULL
    assert times == [0, 60, 180, 420, 720, 1020]
    assert plan([job("a", "xxxxxx")], [GANG], [room("x", 2)], 1000, resting={"g"}).replicas == {}  # still its room
    assert helped.resting(lambda _: "", 1200) == helped.resting(lambda _: cause, 1200) == set()  # it is forgotten


def test_who_was_helped_and_waits_for_nodes_again_is_helped_again() -> None:
    """Others took the room."""
    helped = Helped(60, 300)
    helped.add(["g"], 0)
    assert helped.resting(lambda _: Cause.NODES_FULL, 10) == set()


@pytest.mark.parametrize(
    ("jobs", "gangs", "extras", "free", "expected"),
    [
        pytest.param([job("a", "xxxx")], [], [extra("s-1"), extra("s-2")], 0, {"a": 2}, id="one replica for each"),
        pytest.param([job("a", "xxxx", least=3)], [], [extra("s-1"), extra("s-2")], 0, {"a": 3}, id="to the minimum"),
        pytest.param([job("a", "xxxx", priority=10)], [], [extra("s-1")], 0, {}, id="not of the same priority"),
        pytest.param([job("a", "xxxx", priority=10)], [], [extra("s-1")], 2, {"a": 5}, id="room is kept all the same"),
        pytest.param(
            [job("a", "xxxx", priority=20), job("b", "xx")], [], [extra("s-1")], 0, {"b": 1}, id="only lower ones give"
        ),
        pytest.param([job("a", "xxxx")], [GANG], [extra("s-1")], 0, {"a": 1}, id="gangs and pods"),
        pytest.param([job("a", "xxxx", least=2)], [GANG], [extra("s-1")], 0, {"a": 2}, id="gangs first"),
        pytest.param(
            [job("a", "xxxx", changed=NOW - 5)], [], [extra("s-1")], 0, {}, id="not while the last change settles"
        ),
        pytest.param(
            [job("a", "xxxx")],
            [],
            [extra("s-1", gpus=9), extra("s-2", gpus=9), extra("t-1")],
            0,
            {"a": 3},
            id="too large",
        ),
    ],
)
def test_pods_beyond_the_minimum_of_their_group(
    jobs: list[Elastic], gangs: list[tuple[str, list[Demand]]], extras: list[Extra], free: int, expected: dict[str, int]
) -> None:
    answer = plan(jobs, gangs, [room("x", free)], NOW, extras)
    assert answer.replicas == expected
    if not gangs and expected and not free:
        assert all("of higher priority, which waits" in text for text in answer.reasons.values())


class World:
    """Nodes, elastic jobs and gangs; a scheduler that places what fits, gangs first.

    Of what waits, names that begin with ``e`` are single pods of priority 5; every other job has a higher one.
    """

    def __init__(self, nodes: int, jobs: list[tuple[int, int, int]]) -> None:
        self.free = {f"n{at}": 8 for at in range(nodes)}
        self.jobs: dict[str, Elastic] = {}
        self.gangs: dict[str, int] = {}
        self.running: dict[str, list[str]] = {}
        for at, (least, more, size) in enumerate(jobs):
            if least * size <= sum(self.free.values()):
                places = [self.place(size) for _ in range(least)]
                kept = tuple((each,) for each in places if each)
                if len(kept) == least:
                    key = f"j{at}"
                    made = Elastic(key, least, least, least + more, pods(size), kept, priority=10 * (at % 2))
                    self.jobs[key] = made
                else:
                    for (name,) in kept:
                        self.free[name] += size

    def place(self, size: int) -> str:
        name = next((name for name, free in self.free.items() if free >= size), "")
        if name:
            self.free[name] -= size
        return name

    def schedule(self) -> None:
        for name, count in list(self.gangs.items()):
            if count <= sum(self.free.values()):
                self.running[name] = [self.place(1) for _ in range(self.gangs.pop(name))]
        for key, job in self.jobs.items():
            size = job.demand.requests[GPU] // 1000
            places = [each or ((found,) if (found := self.place(size)) else ()) for each in job.places]
            self.jobs[key] = replace(job, places=tuple(places))

    def look(self, now: float) -> dict[str, int]:
        gangs = [(name, [pods(count=count)]) for name, count in self.gangs.items() if name.startswith("g")]
        extras = [extra(name, 5) for name in self.gangs if name.startswith("e")]
        rooms = [room(name, free) for name, free in self.free.items()]
        answer = plan(list(self.jobs.values()), gangs, rooms, now, extras).replicas
        for key, wanted in answer.items():
            job = self.jobs[key]
            assert wanted > job.replicas or gangs or job.priority < 5, "smaller for a pod of lower priority"
            assert job.least <= wanted <= job.most
            assert wanted != job.replicas
            if wanted > job.replicas:
                assert now - job.changed >= job.cool_down, "grown in its cool-down"
            size = job.demand.requests[GPU] // 1000
            for place in job.places[wanted:]:
                for name in place:
                    self.free[name] += size
            places = job.places[:wanted] + ((),) * (wanted - job.replicas)
            assert sum(map(bool, places)) >= job.least, "fewer than it needs"
            self.jobs[key] = replace(job, replicas=wanted, places=places, changed=now)
        return answer

    def come(self, at: int, size: int, *, singly: bool) -> None:
        if singly:
            self.gangs |= {f"e{at}-{index}": 1 for index in range(size)}
        else:
            self.gangs[f"g{at}"] = size

    def end(self, at: int) -> None:
        mine = (f"g{at}", f"e{at}-")
        for name in [name for name in (*self.gangs, *self.running) if name == mine[0] or name.startswith(mine[1])]:
            self.gangs.pop(name, None)
            for node in self.running.pop(name, ()):
                self.free[node] += 1


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 12), st.integers(1, 4)), max_size=4),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(1, 25), st.booleans()), max_size=6),
)
@settings(max_examples=examples(150), deadline=None)
def test_limits_hold_nothing_swings_and_everything_comes_to_rest(
    nodes: int, jobs: list[tuple[int, int, int]], gangs: list[tuple[int, int, int, bool]]
) -> None:
    world = World(nodes, jobs)
    changes: dict[str, list[tuple[float, int]]] = {key: [] for key in world.jobs}
    last = 0.0
    for step in range(140):
        now = NOW + step * 10.0
        for at, (begin, size, length, singly) in enumerate(gangs):
            if step == begin:
                world.come(at, size, singly=singly)
            if step == begin + length:
                world.end(at)
        world.schedule()
        before = {key: job.replicas for key, job in world.jobs.items()}
        waited = bool(world.gangs)
        for key, replicas in world.look(now).items():
            assert waited or replicas > before[key], "smaller though no gang waits"
            changes[key].append((now, replicas))
            last = now
        assert all(free >= 0 for free in world.free.values())
    over = NOW + 10.0 * max((begin + length for begin, _, length, _ in gangs), default=0)
    assert last <= over + 2 * 300.0 + 20.0, "changes long after everything else came to rest"
    for done in changes.values():
        # In a window of one cool-down a job grows once at most, however often gangs come.
        grown = [now for (_, earlier), (now, replicas) in pairwise(done) if replicas > earlier]
        assert all(later - earlier >= 300.0 for earlier, later in pairwise(grown))
