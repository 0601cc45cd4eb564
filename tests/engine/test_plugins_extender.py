"""extender: another service filters, scores, gates and names victims; the transport is given from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from plugins_world import World, a_pod, class_of, job_of, queue_of, task_of

from unisono import engine
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Purpose, Refusal, Vote
from unisono.engine.config.arguments import Flags
from unisono.engine.config.model import PluginConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins import extender
from unisono.engine.plugins.extender import extender_with
from unisono.engine.plugins.registry import create
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause
from unisono.errors import ConfigError


class Service:
    """Answers by verb; an exception is raised. ``calls`` keeps what was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, url: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        assert url.startswith("http://there/")
        assert timeout == 2.0
        verb = url.rsplit("/", 1)[1]
        self.calls.append((verb, dict(body)))
        answer = self.answers.get(verb, {})
        if isinstance(answer, Exception):
            raise answer
        return answer(body) if callable(answer) else answer


def arguments(*verbs: str, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"extender.urlPrefix": "http://there/", "extender.httpTimeout": "2s"}
    given |= {f"extender.{verb}Verb": verb for verb in verbs}
    return given | {f"extender.{key}": value for key, value in more.items()}


def opened(service: Service, world: World, *verbs: str, **more: Any) -> tuple[Session, Any]:
    session = Session(world.state.snapshot(), now=0.0)
    plugin = extender_with(service)(PluginConfig("extender", Flags(), arguments(*verbs, **more)))
    plugin.open(session)
    session.subject = job_of(session, "j")
    return session, plugin


def world() -> World:
    built = World().node("a").node("b").node("full", has={"cpu": "1"}).queue("q")
    return built.job("j", a_pod("2"), a_pod("2"), minResources={"cpu": "2"}).job("old", a_pod("2", node="a"))


DOWN = ConnectionError("refused")


def test_without_a_transport_it_does_not_load() -> None:
    with pytest.raises(ConfigError, match="cannot make HTTP calls here"):
        create(PluginConfig("extender", Flags(), arguments("predicate")))
    with pytest.raises(ConfigError, match=r"needs extender\.urlPrefix"):
        extender_with(Service())(PluginConfig("extender", Flags(), {}))
    with pytest.raises(ConfigError, match=r"must begin with http:// or https://, not 'file:///etc/passwd'"):
        extender_with(Service())(PluginConfig("extender", Flags(), {"extender.urlPrefix": "file:///etc/passwd"}))


def test_without_a_transport_a_cycle_says_so() -> None:
    text = """
actions: "allocate"
tiers: [{plugins: [{name: gang}, {name: extender, arguments: {extender.urlPrefix: "http://there"}}]}]
"""
    decisions = engine.run(world().state.snapshot(), load_config(text), now=0.0)
    assert "cannot make HTTP calls here" in decisions.violations[0].message
    assert not decisions.binds
    assert {verdict.cause for verdict in decisions.verdicts.values()} == {Cause.PLUGIN_FAILED}


def test_hooks_without_a_verb_have_no_opinion() -> None:
    service = Service()
    session, plugin = opened(service, world())
    job, task, pod_class = job_of(session, "j"), task_of(session, "j-0"), class_of(session, "j-0")
    assert plugin.filter(pod_class, session.nodes) == ()
    assert plugin.score(pod_class, session.nodes) is None
    assert plugin.enqueueable(job) is Vote.ABSTAIN
    assert plugin.ready(job)
    assert plugin.overused(job.queue) is None
    assert plugin.victims(job, task, [task], Purpose.PREEMPT) is None
    plugin.enqueued(job)
    plugin.moved(job, [task], [0], TaskStatus.PENDING, TaskStatus.ALLOCATED)
    plugin.close(session)
    assert service.calls == []


def test_nodes_with_room_are_filtered_and_scored() -> None:
    refuse = {"status": "too hot", "code": 2}
    service = Service(
        predicate=lambda body: refuse if body["node"]["Name"] == "b" else {}, prioritize={"nodeScore": {"a": 7, "x": 1}}
    )
    session, plugin = opened(service, world(), "predicate", "prioritize")
    pod_class = class_of(session, "j-0")
    (veto,) = plugin.filter(pod_class, session.nodes)
    assert (veto.nodes.tolist(), veto.reason.text) == ([False, True, False], "too hot")
    assert plugin.score(pod_class, session.nodes).tolist() == [7, 0, 0]
    asked = [body["node"]["Name"] for verb, body in service.calls if verb == "predicate"]
    assert asked == ["a", "b"]
    assert service.calls[0][1]["task"]["Resreq"]["MilliCPU"] == 2_000
    assert service.calls[0][1]["node"]["Used"]["MilliCPU"] == 2_000
    plugin.filter(pod_class, session.nodes)
    assert len(service.calls) == 3  # nothing changed, nothing is asked again
    session.matrix[session.rows, 1] += 1
    plugin.filter(pod_class, session.nodes)
    assert [body["node"]["Name"] for _, body in service.calls[3:]] == ["b"]


@pytest.mark.parametrize(("ignorable", "refused"), [(False, [True, True, False]), (True, [False] * 3)])
def test_a_filter_that_cannot_be_reached(ignorable: bool, refused: list[bool]) -> None:
    session, plugin = opened(Service(predicate=DOWN), world(), "predicate", ignorable=ignorable)
    vetoes = plugin.filter(class_of(session, "j-0"), session.nodes)
    assert [any(veto.nodes[at] for veto in vetoes) for at in range(3)] == refused


def test_scores_that_fail() -> None:
    session, plugin = opened(Service(prioritize=DOWN), world(), "prioritize", ignorable=True)
    assert plugin.score(class_of(session, "j-0"), session.nodes).tolist() == [0, 0, 0]
    session, plugin = opened(Service(prioritize={"errorMessage": "no"}), world(), "prioritize")
    with pytest.raises(RuntimeError, match="could not score: no"):
        plugin.score(class_of(session, "j-0"), session.nodes)


@pytest.mark.parametrize(("listed", "concerned"), [(["cpu"], True), ([{"name": "cpu"}], True), (["x.io/y"], False)])
def test_only_managed_resources_are_shown(listed: list[Any], concerned: bool) -> None:
    service = Service()
    session, plugin = opened(service, world(), "predicate", "allocateFunc", managedResources=listed)
    assert plugin.concerns(class_of(session, "j-0")) is concerned
    plugin.filter(class_of(session, "j-0"), session.nodes)
    plugin.moved(job_of(session, "j"), [task_of(session, "j-0")], [0], TaskStatus.PENDING, TaskStatus.ALLOCATED)
    assert bool(service.calls) is concerned


@pytest.mark.parametrize(("status", "expected"), [(1, Vote.PERMIT), (0, Vote.ABSTAIN), (-1, None)])
def test_admission_votes(status: int, expected: Vote | None) -> None:
    session, plugin = opened(Service(jobEnqueueable={"status": status}), world(), "jobEnqueueable", "jobEnqueued")
    answer = plugin.enqueueable(job_of(session, "j"))
    if expected is None:
        assert isinstance(answer, Refusal)
        assert answer.cause is Cause.EXTENDER
    else:
        assert answer is expected
    plugin.enqueued(job_of(session, "j"))


@pytest.mark.parametrize(
    ("answer", "ignorable", "ready", "overused"),
    [
        ({"status": True, "overused": True}, False, True, True),
        ({"status": False, "overused": False}, False, False, False),
        (DOWN, False, False, True),
        (DOWN, True, True, False),
    ],
)
def test_states(answer: Any, ignorable: bool, ready: bool, overused: bool) -> None:
    service = Service(jobReady=answer, queueOverused=answer)
    session, plugin = opened(service, world(), "jobReady", "queueOverused", ignorable=ignorable)
    assert plugin.ready(job_of(session, "j")) is ready
    assert (plugin.overused(queue_of(session, "q")) is not None) is overused


@pytest.mark.parametrize(
    ("answer", "ignorable", "expected"),
    [
        ({"status": 1, "victims": [{"UID": "uid-old-0"}]}, False, [True]),
        ({"status": 1, "victims": None}, False, [False]),
        ({"status": 0, "victims": [{"UID": "uid-old-0"}]}, False, None),
        (DOWN, False, [False]),
        (DOWN, True, None),
    ],
)
def test_victims(answer: Any, ignorable: bool, expected: list[bool] | None) -> None:
    session, plugin = opened(Service(reclaimable=answer), world(), "reclaimable", ignorable=ignorable)
    job, task, old = job_of(session, "j"), task_of(session, "j-0"), task_of(session, "old-0")
    mask = plugin.victims(job, task, [old], Purpose.RECLAIM)
    assert (None if mask is None else mask.tolist()) == expected
    assert plugin.victims(job, task, [old], Purpose.PREEMPT) is None
    assert plugin.victims(job, task, [old], Purpose.GANG_RECLAIM) is None


def test_the_whole_cluster_is_shown_at_the_start() -> None:
    service = Service()
    session, plugin = opened(service, world(), "onSessionOpen", "onSessionClose")
    plugin.close(session)
    (first, body), (last, _) = service.calls
    assert (first, last) == ("onSessionOpen", "onSessionClose")
    assert set(body["Nodes"]) == {"a", "b", "full"}
    assert body["Jobs"]["ns/old"]["Allocated"]["MilliCPU"] == 2_000
    assert body["Queues"]["q"]["Weight"] == 1
    with pytest.raises(ConnectionError):
        opened(Service(onSessionOpen=DOWN), world(), "onSessionOpen")
    opened(Service(onSessionOpen=DOWN), world(), "onSessionOpen", ignorable=True)
    with pytest.raises(TypeError):
        opened(Service(onSessionOpen=lambda body: [body]), world(), "onSessionOpen")


def test_a_whole_cycle() -> None:
    service = Service(predicate=lambda body: {"status": "no"} if body["node"]["Name"] == "a" else {})
    given = "".join(f"      extender.{verb}Verb: {verb}\n" for verb in ("predicate", "allocateFunc", "deallocateFunc"))
    text = f"""
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: extender
    arguments:
      extender.urlPrefix: http://there
      extender.httpTimeout: 2s
{given}"""
    plugins = {"extender": extender_with(service)}
    decisions = engine.run(world().state.snapshot(), load_config(text), now=0.0, plugins=plugins)
    assert [bind.node for bind in decisions.binds] == ["b", "b"]
    told = [body["task"]["NodeName"] for verb, body in service.calls if verb == "allocateFunc"]
    assert told == ["b", "b"]
    assert not [verb for verb, _ in service.calls if verb == "deallocateFunc"]


@pytest.mark.parametrize(
    ("status", "number"),
    [
        (TaskStatus.PENDING, 1),
        (TaskStatus.ALLOCATED, 2),
        (TaskStatus.PIPELINED, 4),
        (TaskStatus.BINDING, 8),
        (TaskStatus.BOUND, 16),
        (TaskStatus.RUNNING, 32),
        (TaskStatus.RELEASING, 64),
        (TaskStatus.SUCCEEDED, 128),
        (TaskStatus.FAILED, 256),
        (TaskStatus.UNKNOWN, 512),
    ],
)
def test_a_status_has_the_number_that_volcano_gives_it(status: TaskStatus, number: int) -> None:
    session, _ = opened(Service(), world())
    assert extender.task_of(task_of(session, "j-0"), status, session.registry)["Status"] == number
