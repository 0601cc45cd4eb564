"""Jobs that hold GPUs and do not use them: told, stopped where the queue wants that, and never without measurements."""

from __future__ import annotations

from typing import Any

import pytest

from support.build import START, cluster, group, node, pod, queue, schedule
from unisono.api.annotations import EVICTABLE, IDLE_AFTER, IDLE_GPUS
from unisono.api.idle_gpus import IdlePolicy, policy_of
from unisono.api.kinds import PODS, QUEUES
from unisono.api.node_usage import NodeUsage
from unisono.api.queues import mistakes
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import default_config
from unisono.engine.decisions import Decisions

HOUR = 3600.0
STOP = "below=5%,after=2h,notice=15m,then=Stop,most=6h"


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        (STOP, IdlePolicy(5.0, 2 * HOUR, 900.0, True, 6 * HOUR)),
        ("after=1h", IdlePolicy(5.0, HOUR, 0.0, False, HOUR)),
        (" below=10% , after=30m, then=Warn ", IdlePolicy(10.0, 1800.0, 0.0, False, 1800.0)),
        ("", None),
    ],
)
def test_forms(text: str, policy: IdlePolicy | None) -> None:
    assert policy_of(text) == policy


@pytest.mark.parametrize(
    "text",
    [
        *("below=5%", "after=soon", "after=59s", "after=1h,below=5", "after=1h,below=0%", "after=1h,then=Kill"),
        *("after=1h,x=1", "after=1h,after=2h", "after=1h,notice=-1s", "after=1h,most=", "after"),
    ],
)
def test_what_is_refused_names_the_annotation_and_the_form(text: str) -> None:
    ((key, value, why),) = mistakes({IDLE_GPUS: text})
    assert (key, value) == (IDLE_GPUS, text)
    assert "write below=5%,after=2h" in why


class World:
    """A job of 8 GPUs on a node with as many, whose use is measured from time to time."""

    def __init__(self, text: str = STOP, *, notes: dict[str, str] | None = None, gpu: int = 8, **more: Any) -> None:
        self.state: ClusterState = cluster(
            node("n0", gpu=8),
            queue("q", annotations={IDLE_GPUS: text} if text else {}),
            queue("below", parent="q"),
            group("j", 1, phase="Running", queue=more.pop("queue", "q"), annotations=notes),
            pod("j-0", "j", node="n0", phase="Running", gpu=gpu, **more),
        )

    def at(self, seconds: float, gpu: float | None, *, age: float = 0.0) -> Decisions:
        self.state.report_usage({"n0": NodeUsage(5.0, 5.0, START + seconds - age, gpu)})
        return schedule(self.state, default_config(), now=START + seconds)

    def story(self, *moments: tuple[float, float | None]) -> list[str]:
        """What is done at each: nothing, told, or evicted."""
        made = []
        for seconds, gpu in moments:
            decisions = self.at(seconds, gpu)
            made.append("evicted" if decisions.evictions else "told" if decisions.idle else "")
        return made


def test_an_idle_job_is_told_and_stopped_when_its_notice_is_over() -> None:
    world = World()
    assert world.story((0, 1.0), (1.9 * HOUR, 1.0), (2 * HOUR, 1.0), (2.2 * HOUR, 1.0)) == ["", "", "told", "told"]
    decisions = world.at(2.25 * HOUR, 1.0)
    (evicted,) = decisions.evictions
    assert evicted.pod == "j-0"
    assert "GPUs that were used by less than 5 % for 2h15m0s" in evicted.note
    (told,) = decisions.idle
    assert told.message.startswith("its GPUs are used by 1 % at most, less than 5 % since 2023-11-14T22:13:20Z")
    assert "its pods are evicted at 2023-11-15T00:28:20Z" in told.message


@pytest.mark.parametrize(
    ("world", "moments", "becomes"),
    [
        # Used again in between, or not measured, or measured too long ago: the time begins anew.
        (World(), [(0, 1.0), (HOUR, 50.0), (3 * HOUR, 1.0), (4 * HOUR, 1.0)], ["", "", "", ""]),
        (World(), [(0, 1.0), (HOUR, None), (3 * HOUR, 1.0)], ["", "", ""]),
        (World(), [(0, 5.0), (9 * HOUR, 5.0)], ["", ""]),
        # Only told; or nothing at all.
        (World("after=1h"), [(0, 1.0), (HOUR, 1.0), (99 * HOUR, 1.0)], ["", "told", "told"]),
        (World(""), [(0, 1.0), (99 * HOUR, 1.0)], ["", ""]),
        (World("nonsense"), [(0, 1.0), (99 * HOUR, 1.0)], ["", ""]),
        # By the queue above.
        (World(queue="below"), [(0, 1.0), (3 * HOUR, 1.0)], ["", "evicted"]),
        # More time, as far as the queue grants it.
        (World(notes={IDLE_AFTER: "4h"}), [(0, 1.0), (3.9 * HOUR, 1.0), (4 * HOUR, 1.0)], ["", "", "told"]),
        (World(notes={IDLE_AFTER: "99h"}), [(0, 1.0), (5.9 * HOUR, 1.0), (6.3 * HOUR, 1.0)], ["", "", "evicted"]),
        (World(notes={IDLE_AFTER: "1h"}), [(0, 1.0), (1.9 * HOUR, 1.0), (2.0 * HOUR, 1.0)], ["", "", "told"]),
        (World(notes={EVICTABLE: "none"}), [(0, 1.0), (3 * HOUR, 1.0)], ["", "evicted"]),
        # One of 8 GPUs: all of what is measured may be its own.
        (World(gpu=1), [(0, 0.7), (3 * HOUR, 0.7)], ["", ""]),
        (World(gpu=1), [(0, 0.5), (3 * HOUR, 0.5)], ["", "evicted"]),
        (World(gpu=0), [(0, 0.0), (3 * HOUR, 0.0)], ["", ""]),
    ],
)
def test_what_is_done(world: World, moments: list[tuple[float, float | None]], becomes: list[str]) -> None:
    assert world.story(*moments) == becomes


def test_nothing_is_done_by_measurements_that_are_old() -> None:
    world = World()
    world.at(0.0, 1.0)
    decisions = world.at(3 * HOUR, 1.0, age=HOUR)
    assert not decisions.idle
    assert not decisions.evictions


def test_a_pod_that_started_lately_has_its_time() -> None:
    world = World(gpu=4)
    assert world.story((0, 0.0)) == [""]
    late = pod("j-1", "j", node="n0", phase="Running", gpu=4, created=1.5 * HOUR)
    world.state.apply("ADDED", PODS, late)
    assert world.story((1.6 * HOUR, 0.0), (3.4 * HOUR, 0.0), (3.5 * HOUR, 0.0)) == ["", "", "told"]


def test_the_next_cycle_is_due_when_the_time_is_over() -> None:
    world = World()
    assert (world.at(0.0, 1.0).again_at or 0) <= START + 2 * HOUR
    world.state.apply("DELETED", QUEUES, queue("q"))
    assert not world.at(9 * HOUR, 1.0).idle
