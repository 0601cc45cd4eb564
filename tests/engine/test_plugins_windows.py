"""tdm: revocable nodes by the clock; nodegroup: queues on their groups of nodes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from plugins_world import World, a_pod, class_of, job_of, task_of

from unisono import engine
from unisono.api import kinds
from unisono.api.core import Pod
from unisono.api.groups.scheduling import Queue
from unisono.engine.answers import Purpose, Refusal, Vote
from unisono.engine.config.arguments import Flags
from unisono.engine.config.model import PluginConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.registry import create
from unisono.engine.plugins.tdm import read_window
from unisono.engine.session.session import Session
from unisono.errors import ConfigError

MIDNIGHT = 1_767_225_600.0  # 2026-01-01T00:00:00Z
ZONE = {"volcano.sh/revocable-zone": "night"}
MAY_GO = {"volcano.sh/preemptable": "true"}


def at(clock: str) -> float:
    hours, minutes = clock.split(":")
    return MIDNIGHT + int(hours) * 3600 + int(minutes) * 60


def opened(world: World, name: str, now: float = 0.0, flags: Flags | None = None, **given: Any) -> tuple[Session, Any]:
    session = Session(world.state.snapshot(), now=now)
    plugin = create(PluginConfig(name, flags or Flags(), given))
    plugin.open(session)
    return session, plugin


def refusals(session: Session, plugin: Any, pod: str) -> dict[str, str]:
    """First reason per refused node."""
    found: dict[str, str] = {}
    for veto in plugin.static_filter(class_of(session, pod), session.nodes):
        for name, hit in zip(session.nodes.names, veto.nodes.tolist(), strict=True):
            if hit:
                found.setdefault(name, veto.reason.text)
    return found


def points(session: Session, plugin: Any, pod: str) -> list[float]:
    scores = plugin.static_score(class_of(session, pod), session.nodes)
    return (sum(score.raw * score.weight for score in scores) + session.nodes.idle[0] * 0.0).tolist()


# ---- windows


@pytest.mark.parametrize(
    ("text", "clock", "inside"),
    [
        ("08:00-20:00", "07:59", False),
        ("08:00-20:00", "08:00", True),
        ("08:00-20:00", "20:00", False),
        ("20:00-08:00", "23:59", True),
        ("20:00-08:00", "00:00", True),
        ("20:00-08:00", "07:59", True),
        ("20:00-08:00", "12:00", False),
        ("00:00-24:00", "13:00", True),
        (" 1:00 - 2:00 ", "01:30", True),
    ],
)
def test_windows(text: str, clock: str, inside: bool) -> None:
    """Volcano sees an overnight window as not begun once it is past midnight."""
    window = read_window(text)
    assert window is not None
    assert window.holds(datetime.fromtimestamp(at(clock), UTC)) is inside


@pytest.mark.parametrize("text", ["", "8-20", "25:00-26:00", "08:60-09:00", "08:00"])
def test_what_is_no_window(text: str) -> None:
    assert read_window(text) is None


def night(**annotations: str) -> World:
    world = World().node("day").node("night", labels=ZONE).node("odd", labels={"volcano.sh/revocable-zone": "moon"})
    return world.queue("q").job("j", a_pod(annotations=annotations or MAY_GO))


@pytest.mark.parametrize(
    ("clock", "opened_now", "minutes"),
    [("07:59", False, 1), ("08:00", True, 1440), ("17:59", True, 841), ("18:00", False, 840), ("23:59", False, 481)],
)
def test_a_window_of_two_cron_lines(clock: str, opened_now: bool, minutes: int) -> None:
    window = read_window("0 8 * * *:0 18 * * *")
    assert window is not None
    here = datetime.fromisoformat(f"2026-11-27T{clock}:00+00:00")
    assert window.holds(here) is opened_now
    assert window.minutes_until(here) == minutes


def test_a_window_of_weekends() -> None:
    window = read_window("0 18 * * 5:0 6 * * 1")  # from Friday evening to Monday morning
    assert window is not None
    moments = {"2026-11-27T17:00": False, "2026-11-27T18:00": True, "2026-11-29T12:00": True, "2026-11-30T06:00": False}
    for moment, inside in moments.items():
        assert window.holds(datetime.fromisoformat(f"{moment}:00+00:00")) is inside


def test_where_a_cron_window_is_shut_the_verdict_names_when_it_opens() -> None:
    _, plugin = tdm(night(), "12:00", **{"tdm.revocable-zone.night": "0 20 * * *:0 6 * * *"})
    assert "night" not in plugin.active
    assert plugin.windows["night"].opening(plugin.here).endswith(" 20:00")


def tdm(world: World, clock: str, **given: Any) -> tuple[Session, Any]:
    return opened(world, "tdm", at(clock), **{"tdm.revocable-zone.night": "20:00-06:00", **given})


def test_zone_nodes_are_open_within_their_window() -> None:
    session, plugin = tdm(night(), "23:00")
    assert refusals(session, plugin, "j-0") == {"odd": "revocable zone moon not support"}
    assert points(session, plugin, "j-0") == [0, 100, 0]
    session, plugin = tdm(night(), "12:00")
    assert refusals(session, plugin, "j-0")["night"] == "current time beyond revocable zone night:20:00-06:00"
    assert points(session, plugin, "j-0") == [0, 0, 0]


@pytest.mark.parametrize(
    ("annotations", "right"),
    [
        (MAY_GO, True),
        ({"volcano.sh/revocable-zone": "*"}, True),
        ({"volcano.sh/revocable-zone": "night", **MAY_GO}, False),
        ({"volcano.sh/preemptable": "false"}, False),
        ({"unrelated": "x"}, False),
    ],
)
def test_only_pods_that_agree_go_to_revocable_nodes(annotations: dict[str, str], right: bool) -> None:
    session, plugin = tdm(night(**annotations), "23:00")
    refused = refusals(session, plugin, "j-0").get("night", "")
    assert refused == ("" if right else "not allow to dispatch to revocable node")


def test_the_clock_may_stand_elsewhere() -> None:
    session, plugin = tdm(night(), "19:30", **{"tdm.time-zone": "Europe/Berlin"})
    assert "night" not in refusals(session, plugin, "j-0")
    with pytest.raises(ConfigError, match=r"tdm\.time-zone Moon/Sea is not known"):
        tdm(night(), "12:00", **{"tdm.time-zone": "Moon/Sea"})


def test_static_answers_do_not_outlive_the_window() -> None:
    text = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: tdm, arguments: {tdm.revocable-zone.night: "20:00-06:00"}}]
"""
    world = World().node("n", labels=ZONE).queue("q").job("j", a_pod(annotations=MAY_GO))
    bound = [len(engine.run(world.state.snapshot(), load_config(text), now=at(c)).binds) for c in ("12:00", "23:00")]
    assert bound == [0, 1]


# ---- evictions of tdm


def running(world: World, number: int = 3, node: str = "day", **annotations: str) -> World:
    world.job("old", *[a_pod(node=node)] * number, minMember=1)
    world.state.book.jobs["ns/old"].annotations = annotations
    return world


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, 1),
        ({"volcano.sh/jdb-min-available": "1"}, 2),
        ({"volcano.sh/jdb-min-available": "50%"}, 1),
        ({"volcano.sh/jdb-min-available": "4"}, 0),
        ({"volcano.sh/jdb-max-unavailable": "2"}, 2),
        ({"volcano.sh/jdb-max-unavailable": "34%"}, 2),
        ({"volcano.sh/jdb-max-unavailable": "few"}, 0),
    ],
)
def test_as_many_per_job_as_its_budget_spares(annotations: dict[str, str], expected: int) -> None:
    world = running(night(), **annotations).job("new", a_pod(annotations={"x": "y"}))
    session, plugin = tdm(world, "12:00")
    tasks = [task_of(session, f"old-{index}") for index in range(3)]
    mask = plugin.victims(job_of(session, "new"), task_of(session, "new-0"), tasks, Purpose.PREEMPT)
    assert int(mask.sum()) == expected
    assert plugin.victims(job_of(session, "new"), None, tasks, Purpose.RECLAIM) is None


def test_who_can_be_evicted_evicts_nobody() -> None:
    session, plugin = tdm(running(night()), "12:00")
    tasks = [task_of(session, "old-0")]
    assert not plugin.victims(job_of(session, "j"), task_of(session, "j-0"), tasks, Purpose.PREEMPT).any()


def test_late_tasks_leave_once_per_period() -> None:
    world = running(night(), node="night")
    for clock, leaving in (("23:00", 0), ("06:00", 1), ("06:00", 0), ("06:01", 1)):
        session, plugin = tdm(world, clock)
        mask = plugin.shuffled([task_of(session, f"old-{index}") for index in range(3)])
        assert (0 if mask is None else int(mask.sum())) == leaving, clock


def test_orders_and_states_of_tdm() -> None:
    world = World().node("day").queue("q").job("a", a_pod()).job("b", a_pod(), a_pod())
    world.state.book.jobs["ns/a"].annotations = MAY_GO
    session, plugin = tdm(world, "12:00")
    first, second = job_of(session, "a"), job_of(session, "b")
    assert plugin.job_key(second) < plugin.job_key(first)
    assert (plugin.starving(first), plugin.starving(second)) == (False, True)
    assert isinstance(plugin.pipelined(second), Refusal)
    second.min_member = 0
    assert plugin.pipelined(second) is Vote.PERMIT


# ---- nodegroup


def grouped(annotations: dict[str, str] | None = None, **affinity: Any) -> World:
    """Nodes of groups a, b, c and one without; queue q with the given rules."""
    world = World().node("none")
    for group in "abc":
        world.node(f"n-{group}", labels={"volcano.sh/nodegroup-name": group})
    rules = {}
    if lists := {key: affinity[key] for key in ("required", "preferred") if key in affinity}:
        rules["nodeGroupAffinity"] = {f"{key}DuringSchedulingIgnoredDuringExecution": lists[key] for key in lists}
    if lists := {key: affinity[f"anti_{key}"] for key in ("required", "preferred") if f"anti_{key}" in affinity}:
        rules["nodeGroupAntiAffinity"] = {f"{key}DuringSchedulingIgnoredDuringExecution": lists[key] for key in lists}
    value = {
        "metadata": {"name": "q", "annotations": annotations or {}},
        "spec": {"parent": affinity.get("parent"), **({"affinity": rules} if rules else {})},
        "status": {"state": "Open"},
    }
    world.state.apply("ADDED", kinds.QUEUES, msgspec.convert(value, Queue))
    return world.job("j", *[a_pod("2", "1Gi")] * 3)


def nodegroup(world: World, flags: Flags | None = None, **given: Any) -> tuple[Session, Any]:
    session, plugin = opened(world, "nodegroup", 0.0, flags, **given)
    session.subject = job_of(session, "j")
    return session, plugin


ABSENT, UNSAID, UNFIT = (
    "node group label not found",
    "node group affinity not specified",
    "node does not satisfy the node group affinity",
)


@pytest.mark.parametrize(
    ("affinity", "strict", "expected"),
    [
        ({}, True, {"none": ABSENT, "n-a": UNSAID, "n-b": UNSAID, "n-c": UNSAID}),
        ({}, False, {"n-a": UNSAID, "n-b": UNSAID, "n-c": UNSAID}),
        ({"required": ["a"]}, True, {"none": ABSENT, "n-b": UNFIT, "n-c": UNFIT}),
        ({"required": ["a"], "preferred": ["b"]}, False, {"none": ABSENT, "n-c": UNFIT}),
        ({"required": ["a", "b"], "anti_required": ["b"]}, True, {"none": ABSENT, "n-b": UNFIT, "n-c": UNFIT}),
        ({"anti_preferred": ["c"]}, True, {"none": ABSENT, "n-a": UNFIT, "n-b": UNFIT}),
        ({"anti_required": ["c"]}, True, {"none": ABSENT, "n-a": UNFIT, "n-b": UNFIT, "n-c": UNFIT}),
    ],
)
def test_groups_of_a_queue(affinity: dict[str, Any], strict: bool, expected: dict[str, str]) -> None:
    session, plugin = nodegroup(grouped(**affinity), strict=strict)
    assert refusals(session, plugin, "j-0") == expected


@pytest.mark.parametrize(
    ("affinity", "ordered", "expected"),
    [
        ({"required": ["a"], "preferred": ["b", "c"]}, False, [100, 50, 50, 0]),
        ({"required": ["a"], "preferred": ["b", "c"]}, True, [100, 50, 25, 0]),
        ({"required": ["a"], "preferred": ["a"], "anti_preferred": ["c"]}, False, [150, 0, -1, 0]),
        ({}, False, [0, 0, 0, 0]),
    ],
)
def test_points_of_groups(affinity: dict[str, Any], ordered: bool, expected: list[float]) -> None:
    session, plugin = nodegroup(grouped(**affinity), enablePreferredOrder=ordered)
    assert points(session, plugin, "j-0") == expected


@pytest.mark.parametrize(("hierarchy", "allowed"), [(True, {"n-a"}), (False, set())])
def test_rules_are_inherited(hierarchy: bool, allowed: set[str]) -> None:
    world = grouped(parent="up")
    required = {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}
    world.queue("up", affinity={"nodeGroupAffinity": required})
    session, plugin = nodegroup(world, Flags(hierarchy=hierarchy))
    assert set(session.nodes.names) - set(refusals(session, plugin, "j-0")) == allowed


LIMIT = {"volcano.sh/nodegroup-resource-limits": json.dumps({"a": {"cpu": "4"}})}
CYCLE = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodegroup}]
"""


def test_a_queue_has_limits_in_a_group() -> None:
    world = grouped(LIMIT, required=["a"], preferred=["b"])
    decisions = engine.run(world.state.snapshot(), load_config(CYCLE), now=0.0)
    assert sorted(bind.node for bind in decisions.binds) == ["n-a", "n-a", "n-b"]


def test_limits_count_what_runs() -> None:
    world = grouped(LIMIT, required=["a"]).job("old", a_pod("3", node="n-a"))
    session, plugin = nodegroup(world)
    pod_class = class_of(session, "j-0")
    (veto,) = plugin.filter(pod_class, session.nodes)
    assert dict(zip(session.nodes.names, veto.nodes.tolist(), strict=True))["n-a"]
    assert veto.reason.text == "node group resource limit exceeded"
    plugin.removed(job_of(session, "old"), class_of(session, "old-0"), [session.nodes.names.index("n-a")])
    (veto,) = plugin.filter(pod_class, session.nodes)
    assert not veto.nodes.any()
    assert plugin.concerns(pod_class)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": {"cpu": "much"}}'])
def test_limits_that_cannot_be_read(text: str) -> None:
    session, plugin = nodegroup(grouped({"volcano.sh/nodegroup-resource-limits": text}, required=["a"]))
    assert set(refusals(session, plugin, "j-0").values()) == {"node group resource limit annotation invalid"}


def test_pods_differ_by_what_they_agree_to() -> None:
    world = night()
    value = {"metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": a_pod()}
    world.state.apply("ADDED", kinds.PODS, msgspec.convert(value, Pod))
    session, _ = world.open()
    assert class_of(session, "p") is not class_of(session, "j-0")
