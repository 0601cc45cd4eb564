"""Explanations in a copy of the process: when there is one, what it may tell, and what is done when it fails."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from scheduler_world import REAL, fill, world

from support.memory import MemoryClient
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.decisions import Bind, Decisions, PodCondition, PodGroupUpdate, Violation
from unisono.engine.verdict import Cause, Verdict
from unisono.scheduler.explanations import Explained, Explanations, Meanwhile, Told, in_copy
from unisono.scheduler.settings import FixedConfig

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no copies of processes on this system")

NO_CLUSTER: Any = None


class Copies:
    """Copies that are made here, and end when they are told to."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Callable[[], Explained], Told]] = []

    def __call__(self, work: Callable[[], Explained], done: Told) -> Any:
        self.under_way.append((work, done))

    def end(self, *, fail: bool = False) -> None:
        work, done = self.under_way.pop()
        done("killed" if fail else work())


class Engine:
    """Takes half a second to decide and as long as it is told to explain."""

    def __init__(self, explains: float) -> None:
        self.now, self.explains, self.cycles = 0.0, explains, list[bool]()

    def __call__(self, _s: Any, _c: Any, _now: float, _seed: int, *, verdicts: Any) -> Decisions:
        self.cycles.append(bool(verdicts))
        self.now += 0.5
        return Decisions(explained=bool(verdicts), seconds={"explain": self.explains} if verdicts else {})


def explanations(engine: Engine, copies: Copies | None) -> Explanations:
    return Explanations(lambda: engine.now, copies=copies)


def test_what_takes_long_is_worked_out_in_a_copy_while_cycles_only_decide() -> None:
    engine, copies, told = Engine(2.0), Copies(), list[Explained]()
    made = explanations(engine, copies)
    made.tell = told.append
    first = made.decide(engine, _empty(), SchedulerConfig((), ()), 100.0, 0)
    assert first.explained and not copies.under_way  # nothing is known yet, and few wait
    engine.now += 20
    assert not made.decide(engine, _empty(), SchedulerConfig((), ()), 120.0, 0).explained
    assert made.copying and len(copies.under_way) == 1
    made.decide(engine, _empty(), SchedulerConfig((), ()), 121.0, 0)
    assert len(copies.under_way) == 1  # one at a time
    copies.end()
    assert [one.seconds for one in told] == [2.0] and not made.copying
    assert made.pause() > 0


def test_what_is_done_in_a_moment_stays_part_of_the_cycle() -> None:
    engine, copies = Engine(0.05), Copies()
    made = explanations(engine, copies)
    for _ in range(4):
        assert made.decide(engine, _empty(), SchedulerConfig((), ()), 100.0, 0).explained
        engine.now += 10
    assert not copies.under_way


def test_a_copy_that_fails_leaves_explanations_to_the_cycles_for_a_while() -> None:
    engine, copies = Engine(2.0), Copies()
    made = explanations(engine, copies)
    made.decide(engine, _empty(), SchedulerConfig((), ()), 100.0, 0)
    engine.now += 20
    made.decide(engine, _empty(), SchedulerConfig((), ()), 120.0, 0)
    copies.end(fail=True)
    assert made.decide(engine, _empty(), SchedulerConfig((), ()), 121.0, 0).explained
    engine.now += 400
    made.decide(engine, _empty(), SchedulerConfig((), ()), 521.0, 0)
    assert copies.under_way


@pytest.mark.parametrize("plugin", ["extender", "somebody.elses:Plugin"])
def test_code_of_others_does_not_run_in_a_copy(plugin: str) -> None:
    engine, copies = Engine(2.0), Copies()
    made, config = explanations(engine, copies), SchedulerConfig((), ((PluginConfig(plugin),),))
    for _ in range(3):
        made.decide(engine, _empty(), config, 100.0, 0)
        engine.now += 20
    assert not copies.under_way


def _empty() -> Any:
    class Cluster:
        active: tuple[str, ...] = ()
        jobs: dict[str, Any] = {}  # noqa: RUF012

    return Cluster()


def heard(work: Callable[[], Explained]) -> Explained | str:
    found, ended = list[Explained | str](), threading.Event()

    def done(explained: Explained | str) -> None:
        found.append(explained)
        ended.set()

    in_copy(work, done)
    assert ended.wait(20)
    return found[0]


def test_a_copy_tells_what_it_found_and_changes_nothing_here() -> None:
    here = {"changed": False}
    verdict = Verdict("team/a", Cause.NODES_FULL, "no room", queue="default")

    def work() -> Explained:
        here["changed"] = True
        return Explained(Decisions(verdicts={"team/a": verdict}), 1.5, {"team/b-0"})

    found = heard(work)
    assert isinstance(found, Explained)
    assert (found.decisions.verdicts, found.seconds, found.bound) == ({"team/a": verdict}, 1.5, {"team/b-0"})
    assert not here["changed"]


def test_a_copy_has_no_connection_of_this_process() -> None:
    reading, writing = os.pipe()

    def work() -> Explained:
        signal.pause()
        raise AssertionError

    ended = threading.Event()
    copy = in_copy(work, lambda _: ended.set())
    os.close(writing)
    assert os.read(reading, 1) == b""  # the copy would keep it open for as long as it lives
    os.close(reading)
    copy.end()
    assert ended.wait(20)
    copy.end()  # of one that has ended nothing is left to stop


def test_a_copy_that_fails_or_is_killed_tells_nothing() -> None:
    def fail() -> Explained:
        raise ValueError("broken")

    assert heard(fail) == "ValueError: broken"
    assert heard(lambda: os.kill(os.getpid(), signal.SIGKILL)) == "it ended with -9"  # type: ignore[arg-type, return-value]


def test_what_was_decided_meanwhile_counts_for_more() -> None:
    beside = Decisions(violations=[Violation("a", "b")])
    meanwhile = Meanwhile(beside, 7)
    started = PodGroupUpdate("team", "a", "", "Running", 1, 0, 0, ())
    waits = PodGroupUpdate("team", "b", "", "Inqueue", 0, 0, 0, ())
    bind = Bind("team", "c-0", "", "n", "team/c")
    meanwhile.note(Decisions(pod_groups=[started, waits], binds=[bind]))
    verdicts = {key: Verdict(key, Cause.NODES_FULL, "no room") for key in ("team/a", "team/b", "team/c", "team/d")}
    other = PodGroupUpdate("team", "d", "", "Inqueue", 0, 0, 0, ())
    old = PodCondition("team", "gone", "", "Unschedulable", "no room")
    told = Decisions(verdicts=verdicts, pod_groups=[waits, other], pod_conditions=[old])
    meanwhile.remove_outdated(told, {})
    assert set(told.verdicts) == {"team/b", "team/d"}
    assert told.pod_groups == [other] and not told.pod_conditions


async def test_a_scheduler_tells_what_its_copy_found() -> None:
    """The real engine, and a real copy: cycles only decide, and the job and its pods are told all the same."""
    client = MemoryClient()
    fill(client, gangs={"a": 3, "b": 9})
    explained, made = list[bool](), Explanations(client.clock.monotonic, copies=in_copy, least=-1.0)
    async with world(client, REAL, explanations=made, config=FixedConfig()) as it:
        real = it.scheduler._decide

        def decide(*given: Any, **more: Any) -> Decisions:
            decisions = real(*given, **more)
            explained.append(decisions.explained)
            return decisions

        it.scheduler._decide = decide
        await it.run(5)
        for _ in range(200):
            if it.scheduler.verdict("team/b") is not None:
                break
            await _moment()
        assert not any(explained[1:])
        verdict = it.scheduler.verdict("team/b")
        assert verdict is not None and verdict.changes
        await it.run(20)
        group = client.raw(POD_GROUPS, "team/b")
        assert any(each["type"] == "Unschedulable" for each in group["status"]["conditions"])
        assert client.raw(PODS, "team/b-0")["status"]["conditions"][-1]["reason"] == "Unschedulable"
        assert {it.nodes_of()[f"a-{at}"] for at in range(3)} != {None}
        assert it.scheduler.metrics.violations._value.get() == 0


async def _moment() -> None:
    await asyncio.to_thread(threading.Event().wait, 0.05)


async def test_a_cycle_that_decides_otherwise_than_its_copy_is_a_violation() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    async with world(client) as it:
        await it.run(5)
        it.scheduler._meanwhile = Meanwhile(Decisions(), it.scheduler.feed.state.version)
        it.scheduler._hear(Explained(Decisions(), 1.0, {"team/x-0"}))
        assert it.scheduler.metrics.violations._value.get() == 1
