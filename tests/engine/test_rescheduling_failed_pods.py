"""removeFailedPods: which failed pods are deleted, which stay, and how many go at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from support.build import START, cluster, config, group, node, pod, schedule
from support.examples import examples
from unisono.api.base import OwnerReference
from unisono.api.core import ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus
from unisono.api.kinds import PODS
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import PluginConfig, SchedulerConfig
from unisono.engine.plugins.registry import create
from unisono.errors import ConfigError

NOW = START + 10_000.0
NODE = node("a", cpu=8)
OWNERS = {"ReplicaSet": "apps/v1", "Job": "batch/v1", "VolcanoJob": "batch.volcano.sh/v1alpha1"}


def failed(
    name: str,
    *,
    reason: str = "",
    ended: str = "",
    waits: str = "",
    init: str = "",
    kind: str = "ReplicaSet",
    **more: Any,
) -> Any:
    """A failed pod of job ``web`` with these reasons: its own, of its container, of its init container."""
    made = pod(name, more.pop("job", "web"), node="a", phase="Failed", **({"cpu": 1} | more))
    if kind:
        reference = OwnerReference(
            api_version=OWNERS[kind], kind=kind.removeprefix("Volcano"), name="o", uid="o", controller=True
        )
        made.metadata.owner_references = [reference]
    made.status.reason = reason or None
    if ended or waits:
        state = ContainerState(
            waiting=ContainerStateWaiting(reason=waits) if waits else None,
            terminated=ContainerStateTerminated(exit_code=1, reason=ended) if ended else None,
        )
        made.status.container_statuses = [ContainerStatus(name="main", state=state)]
    if init:
        state = ContainerState(terminated=ContainerStateTerminated(exit_code=1, reason=init))
        made.status.init_container_statuses = [ContainerStatus(name="init", state=state)]
    return made


def having(*plugins: str, more: dict[str, Any] | None = None, **params: Any) -> SchedulerConfig:
    strategies = [{"name": "removeFailedPods", "params": params}]
    arguments = {"rescheduling": {"interval": "5m", "strategies": strategies}} | (more or {})
    return config(("gang", "rescheduling", *plugins), ("predicates",), actions="shuffle", arguments=arguments)


def looks(state: ClusterState, how: SchedulerConfig, now: float = NOW) -> list[str]:
    """Names of pods that are deleted in the second look."""
    assert schedule(state, how, now=now - 300).evictions == []
    decisions = schedule(state, how, now=now)
    assert decisions.violations == []
    assert {(each.reason, each.beneficiary) for each in decisions.evictions} <= {("shuffle", "")}
    return [each.pod for each in decisions.evictions]


def later(state: ClusterState, how: SchedulerConfig, seconds: float) -> list[str]:
    """Names of pods that are deleted in a look so long after the second one."""
    return [each.pod for each in schedule(state, how, now=NOW + seconds).evictions]


def removed(things: list[Any], how: SchedulerConfig | None = None, minimum: int = 1, **params: Any) -> list[str]:
    return looks(cluster([NODE, group("web", minimum, phase="Running"), *things]), how or having(**params))


@pytest.mark.parametrize(
    ("given", "params", "leaves"),
    [
        pytest.param({}, {}, True, id="any failed pod"),
        pytest.param({"reason": "Evicted"}, {"reasons": ["Evicted"]}, True, id="its own reason"),
        pytest.param({"ended": "OOMKilled"}, {"reasons": ["Evicted", "OOMKilled"]}, True, id="of its container"),
        pytest.param({"waits": "CreateContainerError"}, {"reasons": ["CreateContainerError"]}, True, id="it waited"),
        pytest.param({"ended": "Error"}, {"reasons": ["OOMKilled"]}, False, id="another reason"),
        pytest.param({}, {"reasons": ["OOMKilled"]}, False, id="no reason"),
        pytest.param({"init": "Error"}, {"reasons": ["Error"]}, False, id="init containers are not looked at"),
        pytest.param(
            {"init": "Error"}, {"reasons": ["Error"], "includingInitContainers": True}, True, id="unless they are"
        ),
        pytest.param({"kind": "Job"}, {"excludeOwnerKinds": ["Job"]}, False, id="an owner that is left out"),
        pytest.param({"kind": "Job"}, {"excludeOwnerKinds": ["ReplicaSet"]}, True, id="another owner is left out"),
        pytest.param({"kind": ""}, {}, False, id="nothing makes it again"),
        pytest.param({"kind": "VolcanoJob"}, {}, False, id="policies of its job decide"),
        pytest.param({"created": 9_500.0}, {"minPodLifetimeSeconds": 600}, False, id="too young"),
        pytest.param({"created": 9_400.0}, {"minPodLifetimeSeconds": 600}, True, id="old enough"),
        pytest.param({"priority": 50}, {"thresholdPriority": 50}, False, id="too important"),
        pytest.param({"priority": 49}, {"thresholdPriority": 50}, True, id="its priority is below"),
        pytest.param({"deleting": True}, {}, False, id="it is being deleted"),
        pytest.param({"scheduler": "default-scheduler"}, {}, False, id="another scheduler's"),
        pytest.param({"annotations": {"volcano.sh/preemptable": "false"}}, {}, False, id="it says that it must stay"),
    ],
)
def test_failed_pods_leave(given: dict[str, Any], params: dict[str, Any], leaves: bool) -> None:
    assert removed([failed("f", **given)], **params) == (["f"] if leaves else [])


def test_pods_that_run_or_have_succeeded_stay() -> None:
    done = failed("done")
    done.status.phase = "Succeeded"
    alive = failed("alive")
    alive.status.phase = "Running"
    assert removed([done, alive, failed("f")]) == ["f"]


@pytest.mark.parametrize(
    ("minimum", "running", "number", "leave"),
    [
        pytest.param(3, 3, 2, 2, id="the gang is whole without them"),
        pytest.param(3, 2, 2, 1, id="one stands for the member that is missing"),
        pytest.param(3, 2, 1, 0, id="it is the member that is missing"),
        pytest.param(3, 0, 3, 3, id="nothing of the gang holds a place"),
        pytest.param(1, 1, 2, 2, id="no gang"),
    ],
)
def test_a_running_gang_keeps_its_members(minimum: int, running: int, number: int, leave: int) -> None:
    things = [pod(f"r{at}", "web", node="a", cpu=1) for at in range(running)]
    assert removed([*things, *(failed(f"f{at}") for at in range(number))], minimum=minimum) == [
        f"f{at}" for at in range(leave)
    ]


def test_limits_on_evictions_count_them() -> None:
    pods = [failed(f"f{at}") for at in range(5)]
    guard = {"eviction-guard": {"eviction-guard.maxPerCycle": 2}}
    assert removed(pods, having("eviction-guard", more=guard)) == ["f0", "f1"]


def test_limits_within_a_window_count_what_was_sent_and_has_not_failed() -> None:
    state = cluster([NODE, group("web", 1, phase="Running"), *(failed(f"f{at}") for at in range(4))])
    how = having("eviction-guard", more={"eviction-guard": {"eviction-guard.maxPerWindow": 2}})
    assert looks(state, how) == ["f0", "f1"]
    state.release("ns/f0", NOW)
    state.release("ns/f1", NOW)
    assert later(state, how, 600) == []
    state.keep("ns/f1")
    assert later(state, how, 1200) == ["f0"], "one deletion is known to have failed"
    state.apply("DELETED", PODS, failed("f0"))
    assert later(state, how, 4000) == ["f1", "f2"], "the window is over"


def test_other_strategies_do_not_see_failed_pods_and_this_one_sees_no_others() -> None:
    strategies = [
        {"name": "removeDuplicates"},
        {"name": "podLifeTime", "params": {"maxPodLifeTimeSeconds": 50_000}},
        {"name": "removeFailedPods", "params": {"reasons": ["Evicted"]}},
    ]
    arguments = {"rescheduling": {"interval": "5m", "strategies": strategies}}
    how = config(("gang", "rescheduling"), ("predicates",), actions="shuffle", arguments=arguments)
    things = [failed("e", reason="Evicted"), failed("f"), pod("r", "web", node="a", cpu=1)]
    assert looks(cluster([NODE, node("b", cpu=8), group("web", 1, phase="Running"), *things]), how) == ["e"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"reason": []}, "has no parameter reason; it has excludeOwnerKinds, includingInitContainers"),
        ({"reasons": "Evicted"}, "reasons must be a list of words"),
        ({"reasons": [""]}, "reasons must be a list of words"),
        ({"excludeOwnerKinds": [5]}, "excludeOwnerKinds must be a list of words"),
        ({"includingInitContainers": 1}, "includingInitContainers must be true or false"),
        ({"minPodLifetimeSeconds": "1h"}, "minPodLifetimeSeconds must be a whole number"),
        ({"minPodLifetimeSeconds": -1}, "minPodLifetimeSeconds must not be negative"),
        ({"thresholdPriority": True}, "thresholdPriority must be a whole number"),
    ],
)
def test_mistakes_are_named(params: dict[str, Any], message: str) -> None:
    strategies = [{"name": "removeFailedPods", "params": params}]
    with pytest.raises(ConfigError, match=message):
        create(PluginConfig("rescheduling", arguments={"strategies": strategies}))


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5),
    st.integers(0, 4),
)
def test_a_look_leaves_gangs_their_members_and_keeps_its_bound(jobs: list[tuple[int, int, int]], most: int) -> None:
    things: list[Any] = [node("a", cpu=64)]
    for at, (minimum, running, number) in enumerate(jobs):
        name = f"j{at}"
        things += [group(name, minimum, phase="Running")]
        things += [pod(f"{name}-r{index}", name, node="a", cpu=1) for index in range(running)]
        things += [failed(f"{name}-f{index}", job=name) for index in range(number)]
    how = having("eviction-guard", more={"eviction-guard": {"eviction-guard.maxPerCycle": most}})
    state, gone = cluster(things), looks(cluster(things), how)
    assert all("-f" in name for name in gone)
    assert most == 0 or len(gone) <= most
    for at, (minimum, running, number) in enumerate(jobs):
        left = number - sum(name.startswith(f"j{at}-") for name in gone)
        assert not running or running + left >= min(minimum, running + number)
    for step in range(1, 30):  # what is left goes in later looks, and then nothing does
        for name in gone:
            state.apply("DELETED", PODS, failed(name, job=name.partition("-")[0]))
        gone = later(state, how, 300 * step)
    assert gone == []
