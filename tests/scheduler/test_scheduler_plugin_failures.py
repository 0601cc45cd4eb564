"""A job for which a plug-in fails again and again is asked about less and less often."""

from __future__ import annotations

import asyncio

import pytest

from support.build import START, cluster, config, gang, nodes, pod, schedule
from support.virtual_clock import VirtualClock
from unisono.api.kinds import PODS
from unisono.cluster.state import ClusterState
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause
from unisono.scheduler.settings import PluginFailures

SETTINGS = config(("picky", "gang"), ("predicates",))


class Picky(Plugin):
    """Fails for one job."""

    name = "picky"
    asked = 0

    def valid(self, job: JobState) -> None:
        if job.name == "j":
            type(self).asked += 1
            raise RuntimeError("cannot read it")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def failing(clock: VirtualClock) -> PluginFailures:
    Picky.asked = 0
    return PluginFailures(clock)


def state() -> ClusterState:
    return cluster(nodes(1), gang("j", 1), gang("other", 9, created=1))


def cycle(state: ClusterState, failing: PluginFailures) -> tuple[int, str]:
    """One cycle as the scheduler runs it; how many jobs wait from now on, and what the job is told."""
    state.set_back(failing.setbacks(state.book.jobs))
    decisions = schedule(state, SETTINGS, now=START, plugins={"picky": Picky})
    assert decisions.verdicts["ns/j"].cause is Cause.PLUGIN_FAILED
    assert decisions.verdicts["ns/other"].cause is not Cause.PLUGIN_FAILED
    return failing.take(decisions.failed_jobs, state.book.jobs), decisions.verdicts["ns/j"].message


def test_after_three_failures_the_job_waits_longer_each_time(clock: VirtualClock, failing: PluginFailures) -> None:
    world = state()
    told = "plug-in picky failed in valid for job ns/j: RuntimeError: cannot read it"
    assert [cycle(world, failing)[0] for _ in range(3)] == [0, 0, 1]
    waited = []
    for _ in range(6):
        due = failing.next_release()
        assert due is not None
        before = Picky.asked
        began, message = cycle(world, failing)
        assert (began, Picky.asked) == (0, before), "it is not asked about while it waits"
        assert message.startswith(f"{told} (")
        assert "times in a row); tried again at " in message
        waited.append(due - clock.monotonic())
        asyncio.run(clock.advance(due - clock.monotonic()))
        assert cycle(world, failing)[0] == 1
    assert waited[0] <= 1.0
    assert waited[-1] > 8 * waited[0]


def test_a_job_that_changes_is_tried_at_once(failing: PluginFailures) -> None:
    world = state()
    for _ in range(3):
        cycle(world, failing)
    world.apply("ADDED", PODS, pod("j-more", "j", cpu=2))
    before = Picky.asked
    assert cycle(world, failing)[0] == 0, "it starts to count again"
    assert Picky.asked == before + 1


def test_a_job_that_is_answered_is_forgotten(failing: PluginFailures) -> None:
    world = state()
    for _ in range(2):
        cycle(world, failing)
    failing.take({}, world.book.jobs)
    assert cycle(world, failing)[0] == 0


def test_a_job_that_is_gone_is_forgotten(failing: PluginFailures) -> None:
    world = state()
    for _ in range(3):
        cycle(world, failing)
    failing.take({}, {})
    assert failing.next_release() is None
    assert failing.setbacks(world.book.jobs) == {}
