"""reservation: a large gang starts within a bounded time although small jobs keep coming."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import START, cluster, config, flatten, gang, group, node, nodes, placed, pod, priority_class, queue
from support.examples import examples
from unisono import engine
from unisono.api import kinds
from unisono.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from unisono.api.times import rfc3339
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.reservation.plugin import ReservationPlugin
from unisono.engine.verdict import Cause

STEP = 10.0
RUN_SECONDS = "unisono.io/run-seconds"


def having(after: str = "30s", gangs: int = 1, *more: str) -> SchedulerConfig:
    arguments = {"reservation": {"reservation.after": after, "reservation.gangs": gangs}}
    return config(("priority", "gang", "reservation"), ("predicates", "nodeorder", *more), arguments=arguments)


WITHOUT = config(("priority", "gang"), ("predicates", "nodeorder"))


class Stream:
    """A full cluster into which small jobs keep coming; they run for some steps each, a gang waits from the start."""

    def __init__(self, settings: SchedulerConfig, steps: Callable[[], int], *, stated: bool, width: int = 4) -> None:
        self.settings, self.steps, self.stated = settings, steps, stated
        self.state = cluster(nodes(4, cpu=width))
        self.now, self.number = START, 0
        self.running: dict[str, tuple[float, Pod]] = {}
        self.waiting: dict[str, tuple[int, Pod]] = {}
        self.started_at: dict[str, int] = {}
        for thing in flatten([gang("large", 2 * width, cpu=2)]):
            self.put(thing)

    def put(self, thing: Any) -> None:
        kind = kinds.PODS if isinstance(thing, Pod) else kinds.POD_GROUPS
        self.state.apply("MODIFIED", kind, thing)

    def arrive(self) -> None:
        while len(self.waiting) < 12:
            self.number += 1
            name, steps = f"s{self.number}", self.steps()
            notes = {RUN_SECONDS: str(steps * STEP)} if self.stated else None
            created = self.now - START
            one = pod(f"{name}-w-0", name, cpu=1, created=created, annotations=notes)
            self.put(group(name, 1, created=created))
            self.put(one)
            self.waiting[one.key] = (steps, one)

    def step(self) -> bool:
        """One cycle; whether the gang has started."""
        for key, (end, one) in list(self.running.items()):
            if end <= self.now:
                del self.running[key]
                self.state.apply("DELETED", kinds.PODS, one)
        self.arrive()
        decisions = engine.run(self.state.snapshot(), self.settings, self.now, advice=False)
        assert decisions.violations == []
        for bind in decisions.binds:
            if bind.job == "ns/large":
                return True
            steps, one = self.waiting.pop(f"{bind.namespace}/{bind.pod}")
            one.spec.node_name, one.status.phase = bind.node, "Running"
            one.status.start_time = rfc3339(self.now)
            self.put(one)
            self.running[one.key] = (self.now + steps * STEP, one)
        self.now += STEP
        return False

    def steps_until_start(self, most: int) -> int:
        """Steps until the gang starts, ``most`` when it has not by then."""
        self.settings, real = WITHOUT, self.settings
        large = self.state.tasks.copy()
        for key in large:  # fill the cluster before the gang is there
            self.state.apply("DELETED", kinds.PODS, pod(key.partition("/")[2]))
        self.step()
        self.settings = real
        for thing in flatten([gang("large", len(large), cpu=2)]):
            self.put(thing)
        return next((at for at in range(most) if self.step()), most)


def test_without_the_plugin_the_gang_starves() -> None:
    random = Random(1)
    assert Stream(WITHOUT, lambda: random.randint(2, 6), stated=False).steps_until_start(120) == 120


@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 10**6), longest=st.integers(1, 8), stated=st.booleans())
def test_the_gang_starts_once_those_have_ended_who_ran_when_its_time_came(
    seed: int, longest: int, stated: bool
) -> None:
    random = Random(seed)
    stream = Stream(having("30s"), lambda: random.randint(1, longest), stated=stated)
    after = 3
    assert stream.steps_until_start(80) <= after + longest + 1


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reservation.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"```yaml\n(actions:.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("sharing", ["proportion", "capacity", "the example of the documentation"])
def test_the_gang_starts_though_its_queue_holds_all_of_its_share(sharing: str) -> None:
    """In a full cluster the share of the only queue is used up: its pods end as those on the nodes do."""
    random = Random(1)
    if sharing in ("proportion", "capacity"):
        settings = having("30s", 1, sharing)
    else:
        assert EXAMPLE is not None
        settings = load_config(EXAMPLE[1].replace("10m", "30s"))
    assert Stream(settings, lambda: random.randint(2, 6), stated=False).steps_until_start(60) <= 3 + 6 + 1


def test_short_jobs_go_on_in_the_room_that_is_kept_when_they_say_how_long_they_run() -> None:
    def started(stated: bool) -> int:
        random = Random(7)
        stream = Stream(having("0s"), lambda: random.choice([1, 1, 1, 8]), stated=stated)
        stream.steps_until_start(60)
        return stream.number

    assert started(stated=True) > started(stated=False)


# ---- one cycle


def full(*more: Any) -> list[Any]:
    """Two nodes of 4: two pods end in 100 s, two say nothing; a gang of two times 4 CPUs waits."""
    busy = [
        pod("a", "r", node="n000", cpu=2, annotations={RUN_SECONDS: "1100"}),
        pod("b", "r", node="n001", cpu=2, annotations={RUN_SECONDS: "1100"}),
    ]
    for one in busy:
        one.status.start_time = rfc3339(START)
    return [nodes(2, cpu=4), group("r", 2), busy, gang("large", 2, cpu=4), *more]


def small(name: str = "s", seconds: float = 0, **options: Any) -> list[Any]:
    notes = {RUN_SECONDS: str(seconds)} if seconds else None
    return gang(name, 1, created=5, annotations=notes, **{"cpu": 1, **options})


def binds(things: list[Any], settings: SchedulerConfig | None = None) -> set[str]:
    return set(placed(engine.run(cluster(things).snapshot(), settings or having(), START + 1000.0)))


def promised() -> list[Any]:
    things = small()
    things[1].status.nominated_node_name = "n000"
    return things


@pytest.mark.parametrize(
    ("things", "starts"),
    [
        pytest.param(small(), False, id="nobody knows when it ends"),
        pytest.param(promised(), True, id="others were evicted for it"),
        pytest.param(small(seconds=100), True, id="it ends when the gang could start"),
        pytest.param(small(seconds=101), False, id="it ends too late"),
        pytest.param([node("free", cpu=1), small()], True, id="a node that the gang does not need"),
        pytest.param([priority_class("high", 9), small(priority_class="high")], True, id="higher priority"),
        pytest.param(small(cpu=0), True, id="it requests nothing"),
    ],
)
def test_who_may_start_beside_a_gang_that_waits(things: list[Any], starts: bool) -> None:
    assert ("s-w-0" in binds(full(*things))) is starts
    assert "s-w-0" in binds(full(*things), WITHOUT)


def test_nothing_is_kept_before_the_time_has_come() -> None:
    assert "s-w-0" in binds(full(small()), having("17m"))
    assert "s-w-0" not in binds(full(small()), having("16m"))


@pytest.mark.parametrize(
    "things",
    [
        pytest.param([nodes(2, cpu=4), gang("large", 3, cpu=4), small()], id="a gang larger than the cluster"),
        pytest.param(
            [nodes(2, cpu=4), pod("x", node="n000", cpu=1, scheduler="other"), gang("large", 2, cpu=4), small()],
            id="pods of other schedulers are in its way",
        ),
        pytest.param([nodes(2, cpu=4), gang("large", 3, 4, cpu=4), small()], id="a gang without all of its pods"),
    ],
)
def test_nothing_is_kept_for_a_gang_that_cannot_start(things: list[Any]) -> None:
    assert "s-w-0" in binds(things)


def test_nothing_is_kept_where_the_queue_is_the_limit() -> None:
    settings = having("30s", 1, "proportion")
    limited = queue("q", capability={"cpu": 4})
    things = [nodes(2, cpu=4), limited, queue("other"), gang("large", 2, cpu=4, queue="q"), small(queue="other")]
    assert "s-w-0" in binds(things, settings)


def in_queue(*more: Any, used: int = 3) -> list[Any]:
    """A queue that may hold 4 CPUs of many and holds some of them; a gang of 4 waits in it."""
    things = [nodes(4, cpu=4), queue("root"), queue("top", capability={"cpu": 4})]
    things += [queue("q", parent="top"), queue("sibling", parent="top"), queue("other")]
    things += [group("r", 1, queue="q"), [pod(f"x{at}", "r", node=f"n00{at}", cpu=1) for at in range(used)]]
    return [*things, gang("large", 2, cpu=2, queue="q"), *more]


@pytest.mark.parametrize(
    ("things", "starts"),
    [
        (small(queue="q"), False),
        (small(queue="sibling"), False),
        (small(queue="other"), True),
        (small(queue="q", cpu=0), True),
    ],
    ids=["its own queue", "a queue below the same limit", "another queue", "it requests nothing"],
)
@pytest.mark.parametrize("sharing", [(), ("capacity",)])
def test_who_leaves_room_in_a_queue_for_a_gang(things: list[Any], starts: bool, sharing: tuple[str, ...]) -> None:
    assert ("s-w-0" in binds(in_queue(*things), having("30s", 1, *sharing))) is starts


def test_what_the_gang_does_not_need_of_its_nodes_may_be_used() -> None:
    things = [node("n", cpu=8, gpu=2), group("r", 1), pod("x", "r", node="n", cpu=1, gpu=1)]
    things += [gang("large", 1, cpu=2, gpu=2), small("plain", cpu=4), small("wanting", gpu=1)]
    assert binds(things) == {"plain-w-0"}


def test_the_verdict_names_the_gang() -> None:
    things = full(small())
    verdict = engine.run(cluster(things).snapshot(), having(), START + 1000.0).verdicts["ns/s"]
    assert verdict.cause is Cause.RESERVED
    assert "2 node(s) were kept for PodGroup ns/large" in verdict.message


def test_room_is_kept_for_as_many_gangs_as_configured_one_per_queue() -> None:
    def things() -> list[Any]:
        two = [gang("l1", 2, cpu=4, created=1), gang("l2", 1, cpu=6, queue="q", created=2)]
        busy = [group("r", 3), [pod(f"x{i}", "r", node=f"n00{i}", cpu=1) for i in range(3)]]
        return [nodes(3, cpu=6), queue("q"), busy, two, [small(f"s{i}", cpu=2) for i in range(6)]]

    assert len([name for name in binds(things(), having("30s", 1)) if name.startswith("s")]) >= 2
    assert not [name for name in binds(things(), having("30s", 2)) if name.startswith("s")]


def test_a_gang_that_has_waited_too_long_is_admitted() -> None:
    settings = config(("gang", "reservation"), ("predicates", "overcommit"))
    large = gang("large", 2, cpu=4, phase="Pending", min_resources=True)
    busy = [group("r", 1), pod("x", "r", node="n000", cpu=4), pod("y", "r", node="n001", cpu=4)]
    state = cluster(nodes(2, cpu=4), busy, large)
    phases = {}
    for now in (START + 200.0, START + 400.0):
        decisions = engine.run(state.snapshot(), settings, now)
        phases[now] = {update.name: update.phase for update in decisions.pod_groups}.get("large")
    assert list(phases.values()) == ["Pending", "Inqueue"]


def test_a_gang_that_could_never_start_is_not_admitted() -> None:
    settings = config(("gang", "reservation"), ("predicates", "overcommit"))
    large = gang("large", 3, cpu=4, phase="Pending", min_resources=True)
    decisions = engine.run(cluster(nodes(2, cpu=4), large).snapshot(), settings, START + 9000.0)
    assert decisions.verdicts["ns/large"].cause is Cause.CLUSTER_OVERCOMMITTED


# ---- run times of earlier jobs


def learning(learn: bool = True) -> SchedulerConfig:
    arguments = {"reservation": {"reservation.after": "30s", "reservation.learnRunTimes": learn}}
    return config(("priority", "gang", "reservation"), ("predicates", "nodeorder"), arguments=arguments)


def finished(job: str, seconds: float) -> list[Any]:
    """A job that ran for ``seconds`` and succeeded."""
    one = pod(f"{job}-w-0", job, node="n000", phase="Succeeded")
    one.status.start_time = rfc3339(START)
    ended = ContainerStateTerminated(exit_code=0, finished_at=rfc3339(START + seconds))
    one.status.container_statuses = [ContainerStatus(name="main", state=ContainerState(terminated=ended))]
    return [group(job, 1, phase="Completed"), one]


def unstated(running: float = 0.0) -> list[Any]:
    """As `full`, but nobody states anything: long-1 has shown that its kind runs for 1100 s, short-1 100 s."""
    busy = [pod(f"r-w-{index}", "long-2", node=f"n00{index}", cpu=2) for index in range(2)]
    for one in busy:
        one.status.start_time = rfc3339(START - running)
    head = [nodes(2, cpu=4), group("long-2", 2), busy, gang("large", 2, cpu=4)]
    return [*head, finished("long-1", 1100), finished("short-1", 100)]


@pytest.mark.parametrize(
    ("things", "starts"),
    [
        pytest.param(small("short-2"), True, id="its kind ends before the gang could start"),
        pytest.param(small("long-3"), False, id="its kind runs for too long"),
        pytest.param(small("fresh-1"), False, id="nobody knows its kind"),
        pytest.param(small("fresh-1", seconds=100), True, id="it says so itself"),
        pytest.param(small("short-2", seconds=9000), True, id="it states a limit far above"),
        pytest.param(
            [
                group("fresh", 1, created=5, annotations={RUN_SECONDS: "90"}),
                pod("fresh-w-0", "fresh", cpu=1, created=5),
            ],
            True,
            id="its PodGroup says so",
        ),
    ],
)
def test_earlier_runs_show_who_ends_in_time(things: list[Any], starts: bool) -> None:
    small_pods = {one.metadata.name for one in flatten(things) if isinstance(one, Pod)}
    assert bool(binds([*unstated(), *things], learning()) & small_pods) is starts


def test_without_learning_nothing_is_known() -> None:
    assert not binds([*unstated(), *small("short-2")], learning(False))


def test_a_job_that_runs_on_is_expected_to_end_a_step_later() -> None:
    """It has run 1140 s of the expected 1100: a minute is added once, then five, so 260 s are left after 1141 s."""
    shorter = finished("brief-1", 50)
    assert not binds([*unstated(140.0), shorter, *small("brief-2")], learning())
    assert binds([*unstated(161.0), shorter, *small("brief-2")], learning()) == {"brief-2-w-0"}


def test_a_stream_without_any_annotation_is_backfilled_by_what_it_learns() -> None:
    """The gang starts within the bound, and meanwhile short jobs go on that would have had to wait."""

    class Learner(Stream):
        """Jobs are named by how long they run, and are seen to succeed."""

        def arrive(self) -> None:
            while len(self.waiting) < 12:
                self.number += 1
                steps = self.steps()
                name, created = f"kind{steps}x-{self.number}", self.now - START
                one = pod(f"{name}-w-0", name, cpu=1, created=created)
                self.put(group(name, 1, created=created))
                self.put(one)
                self.waiting[one.key] = (steps, one)

        def step(self) -> bool:
            for end, one in self.running.values():
                if end <= self.now:
                    over = ContainerStateTerminated(exit_code=0, finished_at=rfc3339(end))
                    one.status.phase = "Succeeded"
                    one.status.container_statuses = [
                        ContainerStatus(name="main", state=ContainerState(terminated=over))
                    ]
                    self.put(one)
            return super().step()

    def started(settings: SchedulerConfig) -> tuple[int, int]:
        random = Random(7)
        stream = Learner(settings, lambda: random.choice([1, 1, 1, 8]), stated=False)
        return stream.steps_until_start(60), stream.number

    steps, number = started(learning())
    blind_steps, blind_number = started(learning(False))
    assert steps <= 3 + 2 * 8
    assert blind_steps <= 3 + 8 + 1
    assert number > blind_number


@pytest.mark.parametrize(("seconds", "starts"), [(0, False), (100, True), (500, False)])
def test_the_next_in_line_is_kept_room_for_as_soon_as_the_first_has_started(seconds: int, starts: bool) -> None:
    """The first takes half of the node in this cycle, the next needs all of it, a small one comes last."""
    notes = {RUN_SECONDS: "300"}
    things = [nodes(1, cpu=4), gang("first", 1, cpu=2, created=1, annotations=notes), gang("next", 1, cpu=4, created=2)]
    found = binds([*things, small(cpu=2, seconds=seconds)])
    assert found == ({"first-w-0", "s-w-0"} if starts else {"first-w-0"})


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0, 50, 500, 5000]), st.integers(1, 3)), min_size=1, max_size=12))
def test_jobs_that_a_plan_concerns_alike_share_their_answers(waiting: list[tuple[int, int]]) -> None:
    """The same binds as when every job is asked about by itself, in fewer questions."""
    busy = pod("x", "r", node="n000", cpu=2, created=1, annotations={RUN_SECONDS: "300"})
    things = [nodes(2, cpu=4), group("r", 1), busy, gang("large", 2, cpu=3, created=0)]
    for at, (seconds, cpu) in enumerate(waiting):
        notes = {RUN_SECONDS: str(seconds)} if seconds else None
        things += [group(f"s{at}", 1, created=2 + at)]
        things += [pod(f"s{at}-w-0", f"s{at}", cpu=cpu, created=2 + at, annotations=notes)]
    snapshot = cluster(things).snapshot()
    asked: dict[bool, int] = {}

    def decided(alike: bool) -> set[tuple[str, str]]:
        class Counting(ReservationPlugin):
            def filter(self, pod_class: Any, nodes: Any) -> Any:
                asked[alike] = asked.get(alike, 0) + 1
                return super().filter(pod_class, nodes)

            def answers_alike(self, pod_class: Any) -> str | None:
                return super().answers_alike(pod_class) if alike else None

        plugins = {"reservation": Counting}
        found = engine.run(snapshot, having(), START + 100.0, plugins=plugins, verdicts=False)
        return {(bind.pod, bind.node) for bind in found.binds}

    assert decided(alike=True) == decided(alike=False)
    assert asked.get(True, 0) <= asked.get(False, 0)
    kinds_of_job = len({(bool(seconds) and seconds <= 200, cpu) for seconds, cpu in waiting}) + 1
    assert asked.get(True, 0) <= (2 + len(waiting)) * kinds_of_job
