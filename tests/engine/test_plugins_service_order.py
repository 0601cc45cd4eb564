"""service-order: who comes first by each rule, who makes room, and what is remembered of earlier attempts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support import build
from unisono.api.annotations import RUN_SECONDS
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.service_order import Attained, Levels, Line, ServiceOrderPlugin, _Life
from unisono.engine.session.session import Session
from unisono.errors import ConfigError

NOW = build.START + 100_000.0


def config(**arguments: Any) -> SchedulerConfig:
    given = json.dumps({f"service-order.{key}": value for key, value in arguments.items()})
    return load_config(
        f"""
actions: "allocate, preempt"
tiers:
- plugins:
  - name: service-order
    arguments: {given}
  - name: gang
    enablePreemptable: false
- plugins:
  - name: predicates
"""
    )


def decide(state: ClusterState, settings: SchedulerConfig, now: float = NOW) -> Decisions:
    return run(state.snapshot(), settings, now)


def running(name: str, since: float, gpus: int, seconds: float = 0.0) -> list[Any]:
    """A job of one pod that has run since so many seconds before now."""
    return build.gang(name, 1, node="n000", gpu=gpus, cpu=1, created=NOW - since - build.START, **told(seconds))


def waiting(name: str, gpus: int, seconds: float = 0.0, created: float = 0.0) -> list[Any]:
    return build.gang(name, 1, gpu=gpus, cpu=1, created=created, **told(seconds))


def told(seconds: float) -> dict[str, Any]:
    return {"annotations": {RUN_SECONDS: str(seconds)}} if seconds else {}


def placed(decisions: Decisions) -> list[str]:
    return sorted(bind.pod.split("-w-")[0] for bind in decisions.binds)


@pytest.mark.parametrize(
    ("by", "first"),
    [("remaining-time", "short"), ("time", "short"), ("remaining-service", "narrow"), ("attained-service", "narrow")],
)
def test_the_rule_says_who_is_first(by: str, first: str) -> None:
    """4 GPUs for 100 s are more service than 1 GPU for 300 s; without run times fewer GPUs come first."""
    state = build.cluster(
        build.nodes(1, cpu=64, gpu=4),
        waiting("old", 4, 1000.0, created=0),
        waiting("short", 4, 100.0, created=1),
        waiting("narrow", 1, 300.0, created=2),
    )
    found = placed(decide(state, config(by=by)))
    assert found[0] == first


def test_jobs_that_come_later_make_room() -> None:
    state = build.cluster(build.nodes(1, cpu=64, gpu=4), running("long", 50_000, 4), waiting("new", 4))
    decisions = decide(state, config())
    assert [one.pod for one in decisions.evictions] == ["long-w-0"]
    assert decide(state, config(preempt=False)).evictions == []


@pytest.mark.parametrize(("created", "evicted"), [(99_950.0, False), (0.0, True)])
def test_within_a_level_only_older_jobs_take_places(created: float, evicted: bool) -> None:
    """A job that comes leaves those of its level alone; one that lost its place before they came gets it back."""
    state = build.cluster(build.nodes(1, cpu=64, gpu=4), running("young", 100, 4), waiting("other", 4, created=created))
    assert bool(decide(state, config(firstLevel=3600.0)).evictions) == evicted


@pytest.mark.parametrize(
    ("ran", "evicted"),
    [
        pytest.param(100, [], id="of its level: it stays, also before one that is older"),
        pytest.param(4000, ["young-w-0"], id="of a later level"),
    ],
)
def test_by_turn_running_jobs_keep_their_places_within_a_level(ran: float, evicted: list[str]) -> None:
    state = build.cluster(build.nodes(1, cpu=64, gpu=4), running("young", ran, 4), waiting("older", 4, created=0.0))
    decisions = decide(state, config(levels=[3600], inLevel="turn", wideLevel=-1))
    assert [one.pod for one in decisions.evictions] == evicted


def test_by_turn_an_evicted_job_goes_to_the_end_of_the_line() -> None:
    group, pod = waiting("evicted", 1, created=0.0)
    pod.metadata.creation_timestamp = rfc3339(NOW - 10)  # made again when it was evicted
    state = build.cluster(build.nodes(1, cpu=64, gpu=4), group, pod, waiting("large", 4, created=50.0))
    assert placed(decide(state, config(inLevel="turn", wideLevel=-1))) == ["large"]
    assert placed(decide(state, config(wideLevel=-1))) == ["evicted"]


def test_in_line_a_job_goes_to_the_end_when_it_comes_into_a_level_and_to_the_front_when_it_runs_there() -> None:
    state, line = build.cluster(build.nodes(1, cpu=64, gpu=4), running("job", 100, 4)), Line()
    places = []
    for after, level in ((0.0, 1), (10.0, 2), (15.0, 2)):
        session = Session(state.snapshot(), now=NOW + after)
        line.look(session, lambda _, level=level: level)
        job = session.job("ns/job")
        assert job is not None
        places.append(line.place(job))
    assert places[1:] == [(2.0, NOW + 10), (0.0, NOW + 15)]
    assert places[0][0] == 0.0


def test_a_copy_in_which_time_goes_on_changes_nothing_of_what_is_remembered() -> None:
    state = build.cluster(build.nodes(1, cpu=64, gpu=4), waiting("job", 4))
    attained, line = Attained(), Line()

    def look(attained: Attained, line: Line, now: float) -> tuple[float, tuple[float, float]]:
        session = Session(state.snapshot(), now=now)
        attained.look(session)
        line.look(session, lambda _: 1)
        job = session.job("ns/job")
        assert job is not None
        return attained.seconds(job, now), line.place(job)

    before = look(attained, line, NOW)
    for one in running("job", -10, 4):  # from ten seconds on
        state.apply("MODIFIED", build.kind_of(one), one)
    assert look(attained.copy(), line.copy(), NOW + 100.0) == (90.0, (0.0, NOW + 100.0))
    for one in waiting("job", 4):
        state.apply("MODIFIED", build.kind_of(one), one)
    assert look(attained, line, NOW + 200.0) == before


@pytest.mark.parametrize(("inside", "evicted"), [("line", ["old-w-0"]), ("turn", [])])
def test_in_line_a_job_that_moves_on_makes_room_for_one_that_was_evicted_there(inside: str, evicted: list[str]) -> None:
    """Both are beyond the first level; the one that runs has just come there."""
    state = build.cluster(build.nodes(1, cpu=64, gpu=4), running("old", 3500, 4), waiting("first", 4))
    settings = config(levels=[4 * 3600], inLevel=inside, wideLevel=-1)
    memory = state.snapshot().memo.of(Attained, Attained)
    memory._lives["ns/first"] = _Life("uid-ns-first", ended=5000.0)
    assert decide(state, settings).evictions == []
    assert [one.pod for one in decide(state, settings, NOW + 200).evictions] == evicted


def test_who_has_least_left_stays() -> None:
    state = build.cluster(
        build.nodes(1, cpu=64, gpu=4), running("nearly-done", 900, 4, 1000.0), waiting("new", 4, 500.0)
    )
    assert decide(state, config(by="remaining-service")).evictions == []


def test_earlier_attempts_count() -> None:
    state = build.cluster(build.nodes(1, cpu=64, gpu=4), running("job", 500, 4))
    memory = Attained()
    for after in (0.0, 100.0):
        memory.look(Session(state.snapshot(), now=NOW + after))
    session = Session(state.snapshot(), now=NOW + 100.0)
    job = session.job("ns/job")
    assert job is not None
    assert memory.seconds(job, NOW + 100.0) == 600.0
    for key in list(state.tasks):
        state.apply("DELETED", build.kind_of(build.pod("x")), build.pod(key.partition("/")[2]))
    gone = Session(state.snapshot(), now=NOW + 200.0)
    memory.look(gone)
    again = gone.job("ns/job")
    assert again is not None
    assert memory.seconds(again, NOW + 900.0) == 600.0


@pytest.mark.parametrize(
    ("levels", "service", "level"),
    [
        (Levels((100.0, 1000.0)), 0.0, 0),
        (Levels((100.0, 1000.0)), 99.0, 0),
        (Levels((100.0, 1000.0)), 100.0, 1),
        (Levels((100.0, 1000.0)), 1e9, 2),
        (Levels((100.0,), 4.0), 399.0, 1),
        (Levels((100.0,), 4.0), 400.0, 2),
        (Levels((100.0,), 4.0), 1600.0, 3),
    ],
)
def test_levels_end_where_the_next_begins(levels: Levels, service: float, level: int) -> None:
    assert levels.of(service) == level


def spread(name: str, since: float, nodes: int) -> list[Any]:
    """A job of 4 GPUs on each node that has run since so many seconds before now."""
    head, *pods = build.gang(name, nodes, gpu=4, cpu=1, created=NOW - since - build.START)
    placed_pods = [
        build.pod(f"{name}-w-{at}", name, node=f"n{at:03}", gpu=4, cpu=1, created=NOW - since - build.START)
        for at in range(len(pods))
    ]
    return [head, *placed_pods]


@pytest.mark.parametrize(
    ("wide", "share", "evicted"),
    [(2, 1.0, False), (2, 0.5, True), (2, 0.0, True), (1, 1.0, True)],
)
def test_wide_jobs_that_came_first_keep_a_share(wide: int, share: float, evicted: bool) -> None:
    """The job has had enough for the level; it keeps its places when it is wide and within the share."""
    others = [build.node(f"n{at:03}", cpu=64, gpu=4) for at in range(wide)]
    state = build.cluster(others, spread("old", 50_000, wide), waiting("new", 4))
    decisions = decide(state, config(levels=[3600], wideLevel=1, wideShare=share))
    assert bool(decisions.evictions) == evicted


def test_of_the_wide_jobs_the_oldest_come_first() -> None:
    """Only one of the two has room in the share, so the younger one makes room."""
    older, younger = spread("older", 60_000, 2), spread("younger", 50_000, 2)
    for pod in younger[1:]:
        pod.spec.node_name = f"n{int(pod.metadata.name[-1]) + 2:03}"
    state = build.cluster(build.nodes(4, cpu=64, gpu=4), older, younger, waiting("new", 4))
    decisions = decide(state, config(levels=[3600], wideLevel=1, wideShare=0.5))
    assert {one.pod.split("-")[0] for one in decisions.evictions} == {"younger"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"service-order.by": "luck"}, "service-order.by must be one of"),
        ({"service-order.levelFactor": 1.0}, "service-order.firstLevel must be above 0"),
        ({"service-order.levels": [100, 100]}, "service-order.levels must be numbers above 0 that grow"),
        ({"service-order.levels": ["1h"]}, "service-order.levels must be numbers above 0 that grow"),
        ({"service-order.inLevel": "age"}, "service-order.inLevel must be one of size, turn, line"),
        ({"service-order.wideShare": 1.5}, "service-order.wideShare must be from 0 to 1"),
    ],
)
def test_arguments_out_of_place_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ServiceOrderPlugin(PluginConfig("service-order", arguments=arguments))
