"""Explanations in a copy of the process: when there is one, what it may tell, and what is done when it fails."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from scheduler_world import World, fill, group, world

from support.memory import MemoryClient
from unisono.api.annotations import VERDICT
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.engine import run as real_run
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.decisions import Bind, Decisions, PodCondition, PodGroupUpdate, Violation
from unisono.engine.verdict import Cause, Verdict
from unisono.engine.verdicts import drafts
from unisono.engine.verdicts import explain as explaining
from unisono.scheduler import process_copy
from unisono.scheduler.explanations import Explained, Explanations, Meanwhile
from unisono.scheduler.process_copy import Copy, Done, Unfinished, has_memory, in_copy
from unisono.scheduler.settings import FixedConfig

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no copies of processes on this system")

CONFIG = SchedulerConfig((), ())
EMPTY: Any = SimpleNamespace(active=(), jobs={}, memo=SimpleNamespace(find=lambda _: None))
KILLED = Unfinished("it ended with -9")


class Copies:
    """What copies find at once, and tell when they are told to."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Any, Done]] = []
        self.fail: OSError | None = None

    def __call__(self, work: Callable[[], Explained], done: Done) -> Any:
        if self.fail is not None:
            raise self.fail
        self.under_way.append((work(), done))
        return SimpleNamespace(end=lambda: None)

    def end(self, outcome: Any = None) -> None:
        found, done = self.under_way.pop(0)
        done(outcome or found)


class RealCopies(Copies):
    """The same with real copies of this process."""

    def __call__(self, work: Callable[[], Explained], done: Done) -> Copy:
        found, ended = list[Any](), threading.Event()

        def hear(outcome: Any) -> None:
            found.append(outcome)
            ended.set()

        copy = in_copy(work, hear)
        assert ended.wait(20)
        self.under_way.append((found[0], done))
        return copy


class Engine:
    """Takes half a second to decide and as long as it is told to explain."""

    def __init__(self, explains: float) -> None:
        self.now, self.explains, self.cycles = 0.0, explains, list[bool]()

    def __call__(self, _s: Any, _c: Any, _now: float, _seed: int, *, verdicts: Any) -> Decisions:
        self.cycles.append(bool(verdicts))
        self.now += 0.5
        return Decisions(explained=bool(verdicts), seconds={"explain": self.explains} if verdicts else {})


@pytest.fixture(autouse=True)
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does."""
    monkeypatch.setattr("unisono.scheduler.explanations.has_memory", lambda: True)


def made(engine: Engine, copies: Copies) -> tuple[Explanations, Callable[..., Decisions]]:
    """Explanations that hear of their copies at once, and a cycle of theirs."""
    found = Explanations(lambda: engine.now, copies=copies)
    found.tell = found.ended
    return found, lambda config=CONFIG: found.decide(engine, EMPTY, config, 100.0, 0)


# ---- when there is a copy


def test_what_takes_long_is_worked_out_in_a_copy_while_cycles_only_decide() -> None:
    engine, copies = Engine(2.0), Copies()
    explanations, cycle = made(engine, copies)
    first = cycle()
    assert first.explained and not copies.under_way  # nothing is known yet, and few wait
    engine.now += 20
    assert not cycle().explained
    assert explanations.begun and explanations.copying and len(copies.under_way) == 1
    cycle()
    assert len(copies.under_way) == 1 and not explanations.begun  # one at a time
    copies.end()
    assert not explanations.copying and explanations.pause() > 0


def test_what_is_done_in_a_moment_stays_part_of_the_cycle() -> None:
    engine, copies = Engine(0.05), Copies()
    _, cycle = made(engine, copies)
    for _ in range(4):
        assert cycle().explained
        engine.now += 10
    assert not copies.under_way


def test_a_copy_that_fails_leaves_explanations_to_the_cycles_for_a_while() -> None:
    engine, copies = Engine(2.0), Copies()
    _, cycle = made(engine, copies)
    cycle()
    engine.now += 20
    cycle()
    copies.end(KILLED)
    assert cycle().explained
    engine.now += 400
    cycle()
    assert copies.under_way


def test_one_that_took_too_long_is_followed_by_a_pause_and_no_cycle_explains() -> None:
    engine, copies = Engine(2.0), Copies()
    explanations, cycle = made(engine, copies)
    cycle()
    engine.now += 20
    cycle()
    copies.end(Unfinished("it ended with -14", too_long=True))
    assert not cycle().explained and not copies.under_way and explanations.pause() > 200
    engine.now += 400
    cycle()
    assert copies.under_way


def test_where_no_copy_can_be_made_the_cycle_explains() -> None:
    engine, copies = Engine(2.0), Copies()
    explanations, cycle = made(engine, copies)
    cycle()
    engine.now += 20
    copies.fail = BlockingIOError(11, "Resource temporarily unavailable")
    assert cycle().explained and not explanations.copying


def test_nothing_is_begun_once_it_is_closed() -> None:
    engine, copies = Engine(2.0), Copies()
    explanations, cycle = made(engine, copies)
    cycle()
    engine.now += 20
    explanations.close()
    cycle()
    assert not copies.under_way


@pytest.mark.parametrize("plugin", ["extender", "somebody.elses:Plugin"])
def test_code_of_others_does_not_run_in_a_copy(plugin: str) -> None:
    engine, copies = Engine(2.0), Copies()
    _, cycle = made(engine, copies)
    for _ in range(3):
        cycle(SchedulerConfig((), ((PluginConfig(plugin),),)))
        engine.now += 20
    assert not copies.under_way


# ---- copies of this process


def heard(work: Callable[[], Any]) -> Any:
    found, ended = list[Any](), threading.Event()

    def done(outcome: Any) -> None:
        found.append(outcome)
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
    ended = threading.Event()
    copy = in_copy(signal.pause, lambda _: ended.set())
    os.close(writing)
    assert os.read(reading, 1) == b""  # the copy would keep it open for as long as it lives
    os.close(reading)
    copy.end()
    assert ended.wait(20)
    copy.end()  # of one that has ended nothing is left to stop


def _broken() -> None:
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (_broken, Unfinished("ValueError: broken")),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), KILLED),
        (lambda: os.kill(os.getpid(), signal.SIGALRM), Unfinished("it ended with -14", too_long=True)),
        (threading.Lock, Unfinished("TypeError: cannot pickle '_thread.lock' object")),
    ],
    ids=["an error", "killed", "too long", "not to be told"],
)
def test_a_copy_that_finds_nothing_says_why(work: Callable[[], Any], why: Unfinished) -> None:
    assert heard(work) == why


@pytest.mark.parametrize("part", ["fork", "thread"])
def test_where_a_copy_cannot_be_made_nothing_is_left_of_it(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, fork = list[int](), os.fork

    def forked() -> int:
        made.append(fork())
        return made[-1]

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no more")

    def files() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    before = files()
    with monkeypatch.context() as patch:
        patch.setattr(process_copy.os, "fork", fail if part == "fork" else forked)
        if part == "thread":
            patch.setattr(process_copy.threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            in_copy(signal.pause, lambda _: None)
    assert files() <= before
    for pid in made:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_what_is_free_is_asked_of_the_machine() -> None:
    assert process_copy.has_memory is has_memory
    assert has_memory() in (True, False)


# ---- what is taken over


def test_what_was_decided_meanwhile_counts_for_more() -> None:
    meanwhile = Meanwhile(Decisions(violations=[Violation("a", "b")]), 7)
    started = PodGroupUpdate("team", "a", "", "Running", 1, 0, 0, ())
    waits = PodGroupUpdate("team", "b", "", "Inqueue", 0, 0, 0, ())
    bind = Bind("team", "c-0", "", "n", "team/c")
    meanwhile.note(Decisions(pod_groups=[started, waits], binds=[bind]))
    verdicts = {f"team/{name}": Verdict(f"team/{name}", Cause.NODES_FULL, "no room") for name in "abcdef"}
    other = PodGroupUpdate("team", "d", "", "Inqueue", 0, 0, 0, ())
    old = PodCondition("team", "gone", "", "Unschedulable", "no room")
    told = Decisions(verdicts=verdicts, pod_groups=[waits, other], pod_conditions=[old])
    jobs: Any = {f"team/{name}": SimpleNamespace(uid=f"{name}-2" if name == "e" else name) for name in "abcde"}
    meanwhile.remove_outdated(Explained(told, 1.0, uids={f"team/{name}": name for name in "abcdef"}), jobs, {})
    assert set(told.verdicts) == {"team/b", "team/d"}  # e is another one by now, and f is gone
    assert told.pod_groups == [other] and not told.pod_conditions


async def running(client: MemoryClient, engine: Any, copies: Copies, config: Any = None) -> tuple[Explanations, Any]:
    explanations = Explanations(client.clock.monotonic, copies=copies, least=-1.0)
    explanations._took = 1.0
    options = {} if config is None else {"config": config}
    return explanations, world(client, partial(explanations.decide, engine), explanations=explanations, **options)


def real(client: MemoryClient) -> Any:
    return partial(real_run, monotonic=client.clock.monotonic)


class Saying:
    """An engine that finds one job waiting when it explains, and binds what it is given."""

    def __init__(self) -> None:
        self.binds: list[Bind] = []
        self.error: Exception | None = None

    def __call__(self, _s: Any, _c: Any, _n: float, _seed: int = 0, *, verdicts: Any) -> Decisions:
        if self.error is not None and not verdicts:
            error, self.error = self.error, None
            raise error
        decisions = Decisions(explained=bool(verdicts), seconds={"explain": 1.0} if verdicts else {})
        decisions.binds += self.binds
        if verdicts:
            decisions.verdicts["team/b"] = Verdict("team/b", Cause.NODES_FULL, "no room", queue="default")
        return decisions

    def bind(self, client: MemoryClient) -> None:
        self.binds.append(Bind("team", "a-0", client.raw(PODS, "team/a-0")["metadata"].get("uid", ""), "n0", "team/a"))


def violations(it: World) -> float:
    return it.scheduler.metrics.violations._value.get()


async def test_a_scheduler_tells_what_its_copy_found() -> None:
    """The real engine, and a real copy: cycles only decide, and the job and its pods are told all the same."""
    client = MemoryClient()
    fill(client, gangs={"a": 3, "b": 9})
    explained = list[bool]()
    engine = real(client)

    def noting(*given: Any, **more: Any) -> Decisions:
        decisions = engine(*given, **more)
        explained.append(decisions.explained)
        return decisions

    explanations = Explanations(client.clock.monotonic, copies=in_copy, least=-1.0)
    explanations._took = 1.0
    decide = partial(explanations.decide, noting)
    async with world(client, decide, explanations=explanations, config=FixedConfig()) as it:
        await it.run(5)
        for _ in range(400):
            if it.scheduler.verdict("team/b") is not None:
                break
            await asyncio.to_thread(time.sleep, 0.05)
        assert not any(explained)
        verdict = it.scheduler.verdict("team/b")
        assert verdict is not None and verdict.changes
        await it.run(20)
        group = client.raw(POD_GROUPS, "team/b")
        assert any(each["type"] == "Unschedulable" for each in group["status"]["conditions"])
        assert client.raw(PODS, "team/b-0")["status"]["conditions"][-1]["reason"] == "Unschedulable"
        assert None not in {it.nodes_of()[f"a-{at}"] for at in range(3)}
        assert violations(it) == 0


@pytest.mark.parametrize("seconds", [1, 2, 3])
async def test_status_is_written_however_often_explanations_come(seconds: int) -> None:
    client, copies = MemoryClient(), RealCopies()
    fill(client, gangs={"a": 3, "b": 9})
    _, opened = await running(client, real(client), copies, FixedConfig())
    async with opened as it:
        for half in range(30):
            await it.run(0.5)
            it.nudge()
            if copies.under_way and half % (2 * seconds) == 0:
                copies.end()
        assert client.raw(POD_GROUPS, "team/a")["status"]["phase"] == "Running"


async def test_all_jobs_have_their_turn_though_each_copy_examines_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "MOST_JOBS", 1)
    monkeypatch.setattr(drafts, "MOST_EXAMINED", 3 * drafts._EACH + 1)
    client, copies = MemoryClient(), RealCopies()
    fill(client, gangs={f"g{at}": 9 + at for at in range(12)})
    _, opened = await running(client, real(client), copies, FixedConfig())
    async with opened as it:
        for _ in range(30):
            await it.run(0.5)
            it.nudge()
            if copies.under_way:
                copies.end()
        told = [it.scheduler.verdict(job) for job in it.scheduler.verdicts.jobs()]
        assert len(told) == 12
        assert not [one for one in told if one is None or drafts.NOT_EXAMINED in one.message]


async def test_what_comes_at_the_end_of_a_cycle_is_taken_over() -> None:
    client, copies, engine = MemoryClient(), Copies(), Saying()
    fill(client, gangs={"a": 1, "b": 1})
    _, opened = await running(client, engine, copies)
    async with opened as it:
        release = it.scheduler._release_gangs

        def ends_here() -> None:
            release()
            if copies.under_way:
                copies.end()

        it.scheduler._release_gangs = ends_here
        await it.run(0.5)
        assert it.scheduler.verdict("team/b") is not None
        engine.bind(client)
        it.nudge()
        await it.run(0.5)
        assert violations(it) == 0


async def test_the_finding_beside_a_cycle_that_failed_is_dropped() -> None:
    client, copies, engine = MemoryClient(), Copies(), Saying()
    fill(client, gangs={"a": 1, "b": 1})
    engine.error = ValueError("broken")
    explanations, opened = await running(client, engine, copies)
    async with opened as it:
        await it.run(0.1)
        assert it.scheduler.statistics().failures == 1 and explanations.copying
        engine.bind(client)
        copies.end()
        await it.run(3)
        copies.end()
        await it.run(1)
        assert it.scheduler.verdict("team/b") is not None and violations(it) == 0


async def test_a_job_that_is_made_again_has_no_verdict_of_the_one_before() -> None:
    client, copies = MemoryClient(), Copies()
    fill(client, gangs={"a": 1, "b": 1})
    _, opened = await running(client, Saying(), copies)
    async with opened as it:
        await it.run(1)
        await client.delete(POD_GROUPS, "b", namespace="team")
        await it.run(1)
        client.put(POD_GROUPS, group("b", 1))
        await it.run(1)
        copies.end()
        await it.run(0.2)
        assert it.scheduler.verdict("team/b") is None
        assert VERDICT not in (client.raw(POD_GROUPS, "team/b")["metadata"].get("annotations") or {})


@pytest.mark.parametrize("outcome", [KILLED, None], ids=["a copy that failed", "a cycle while it worked"])
async def test_it_is_explained_again_soon_after(outcome: Any) -> None:
    client, copies = MemoryClient(), Copies()
    fill(client, gangs={"a": 1, "b": 1})
    explanations, opened = await running(client, Saying(), copies)
    async with opened as it:
        await it.run(1)
        if outcome is None:
            it.nudge()
            await it.run(1)
            copies.end()
            await it.run(8)
            assert copies.under_way
        else:
            copies.end(outcome)
            await it.run(1)
            assert it.scheduler.verdict("team/b") is not None
        assert violations(it) == 0
        assert explanations.copying == (outcome is None)


async def test_a_cycle_that_decides_otherwise_than_its_copy_is_a_violation() -> None:
    client, copies = MemoryClient(), Copies()
    fill(client, gangs={"a": 1, "b": 1})
    explanations, opened = await running(client, Saying(), copies)
    async with opened as it:
        await it.run(1)
        copies.end(Explained(Decisions(), 1.0, {"team/x-0"}))
        await it.run(0.1)
        assert violations(it) == 1
        assert explanations.pause() == 0
