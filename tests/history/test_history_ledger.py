"""What the ledger makes of the lives of jobs and pods, by table and in single stories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.build import node, queue
from support.histories import Story, a_group, a_job, a_pod, owner, seconds, uid_of
from unisono.api.base import Object
from unisono.api.groups.job_set import JobSet
from unisono.api.kind_families import JOB_FLOWS, JOB_SETS
from unisono.api.kinds import JOBS, NODE_CHECKS, NODES, POD_GROUPS, PODS, QUEUES
from unisono.history.records import CLUSTER, is_gpu

Event = tuple[float, Object] | tuple[float, Object, bool]

GROUP = lambda queue="q": a_group(queue=queue, parent=owner(JOBS, "j"))  # noqa: E731 - a builder in a few words
DONE = {"phase": "Succeeded", "ended": 60.0}
FAILED = {"phase": "Failed", "ended": 60.0, "exit_code": 3}

SCENARIOS: dict[str, tuple[list[Event], list[tuple[Any, ...]]]] = {
    "runs and succeeds": (
        [(0, a_job("j")), (0, GROUP()), (5, a_pod("p", bound=5)), (61, a_pod("p", bound=5, **DONE))],
        [("p", "q", 5, 60, "Succeeded")],
    ),
    "goes on": ([(0, a_job("j")), (0, GROUP()), (5, a_pod("p", bound=5))], [("p", "q", 5, None, "")]),
    "waits, and holds nothing": ([(0, a_job("j")), (0, GROUP()), (1, a_pod("p", node="", phase="Pending"))], []),
    "is restarted: each pod has an interval": (
        [
            (0, a_job("j")),
            (0, GROUP()),
            (5, a_pod("p", bound=5, uid="first")),
            (61, a_pod("p", bound=5, uid="first", **FAILED)),
            (62, a_pod("p", bound=5, uid="first", **FAILED), True),
            (70, a_pod("p", bound=70, uid="second", created=65)),
            (99, a_pod("p", bound=70, uid="second", created=65, phase="Succeeded", ended=90), True),
        ],
        [("p", "q", 5, 60, "Failed"), ("p", "q", 70, 90, "Succeeded")],
    ),
    "is preempted, and comes back": (
        [
            (0, a_job("j")),
            (0, GROUP()),
            (5, a_pod("p", bound=5, uid="first")),
            (30, a_pod("p", bound=5, uid="first", evicted=True)),
            (35, a_pod("p", bound=5, uid="first", evicted=True), True),
            (50, a_pod("p", bound=50, uid="second", created=36)),
        ],
        [("p", "q", 5, 35, "Evicted"), ("p", "q", 50, None, "")],
    ),
    "the job is deleted while it runs": (
        [
            (0, a_job("j")),
            (0, GROUP()),
            (5, a_pod("p", bound=5)),
            (40, a_job("j", "Running"), True),
            (40, GROUP(), True),
            (42, a_pod("p", bound=5), True),
        ],
        [("p", "q", 5, 42, "Deleted")],
    ),
    "is stopped: its processes end by a signal": (
        [
            (0, a_job("j")),
            (0, GROUP()),
            (5, a_pod("p", bound=5)),
            (60, a_pod("p", bound=5, deleting=True)),
            (61, a_pod("p", bound=5, deleting=True, phase="Failed", ended=60, exit_code=143)),
            (62, a_pod("p", bound=5, deleting=True, phase="Failed", ended=60, exit_code=143), True),
        ],
        [("p", "q", 5, 60, "Deleted")],
    ),
    "changes its queue": (
        [(0, a_job("j")), (0, GROUP()), (5, a_pod("p", bound=5)), (20, GROUP("r")), (61, a_pod("p", bound=5, **DONE))],
        [("p", "q", 5, 20, "Moved"), ("p", "r", 20, 60, "Succeeded")],
    ),
    "changes its size in place": (
        [
            (0, a_job("j")),
            (0, GROUP()),
            (5, a_pod("p", bound=5)),
            (20, a_pod("p", bound=5, resources={"cpu": 4, "gpu": 1})),
        ],
        [("p", "q", 5, 20, "Moved"), ("p", "q", 20, None, "")],
    ),
    "is heard of before its job and its gang": (
        [(6, a_pod("p", bound=5)), (7, GROUP()), (8, a_job("j"))],
        [("p", "q", 5, None, "")],
    ),
    "is heard of when all is over": (
        [(0, a_job("j")), (0, GROUP()), (99, a_pod("p", bound=5, **DONE), True)],
        [("p", "q", 5, 60, "Succeeded")],
    ),
    "an end is told twice": (
        [(5, a_pod("p", bound=5)), (61, a_pod("p", bound=5, **DONE)), (99, a_pod("p", bound=5, **DONE))],
        [("p", "q", 5, 60, "Succeeded")],
    ),
    "a clock that was ahead: no end after the present": (
        [(5, a_pod("p", bound=5)), (10, a_pod("p", bound=5, phase="Succeeded", ended=1000))],
        [("p", "q", 5, 10, "Succeeded")],
    ),
    "a clock that was behind: no end before the start": (
        [(5, a_pod("p", bound=5)), (10, a_pod("p", bound=5, phase="Succeeded", ended=-50))],
        [("p", "q", 5, 5, "Succeeded")],
    ),
    "a start before the pod was made": (
        [(20, a_pod("p", created=10, bound=3))],
        [("p", "q", 10, None, "")],
    ),
    "requests that nobody can read": (
        [(5, a_pod("p", bound=5, resources={"cpu": "many"}))],
        [("p", "q", 5, None, "")],
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_intervals(name: str) -> None:
    events, expected = SCENARIOS[name]
    story = Story()
    # Where a story names neither job nor gang, they are the usual ones.
    if not any(not isinstance(event[1], type(a_pod("p"))) for event in events):
        story.tell(0, a_job("j"))
        story.tell(0, GROUP())
    for at, obj, *deleted in events:
        story.tell(at, obj, deleted=bool(deleted))
    assert story.lines(200) == expected


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_after_a_crash_between_any_two_events(name: str) -> None:
    events, _ = SCENARIOS[name]
    told = Story()
    for at, obj, *deleted in events:
        told.tell(at, obj, deleted=bool(deleted))
    expected, jobs = told.lines(200), told.kept.jobs
    for crash in range(len(events)):
        story = Story()
        for number, (at, obj, *deleted) in enumerate(events):
            story.tell(at, obj, deleted=bool(deleted))
            if number == crash:
                story.store(at)
                story.crash()
        assert story.lines(200) == expected
        assert story.kept.jobs == jobs


def test_a_record_says_who_waited_and_how_it_ended() -> None:
    story = Story()
    story.tell(0, a_job("j", created=0))
    story.tell(0, GROUP())
    for number in range(3):
        story.tell(30, a_pod(f"p{number}", bound=30, created=1))
    story.tell(31, a_job("j", "Running"))
    for number in range(3):
        story.tell(91, a_pod(f"p{number}", bound=30, created=1, phase="Failed", ended=90, exit_code=number))
    story.tell(92, a_job("j", "Failed", changed=91, message="a task failed"))
    record = story.job()
    assert (record.kind, record.namespace, record.name, record.queue, record.user) == ("Job", "ns", "j", "q", "ann")
    assert [seconds(each) for each in (record.created, record.started, record.ended)] == [0, 30, 91]
    assert (record.outcome, record.message, record.exit_code) == ("Failed", "a task failed", 1)
    assert (record.pods, record.gpus, record.cpus) == (3, 3000, 6000)


@pytest.mark.parametrize(
    ("last", "outcome", "ended", "exit_code"),
    [
        (a_job("j", "Running"), "Deleted", 100, None),
        (a_job("j", "Completed", changed=80), "Completed", 80, None),
        (a_job("j", "Aborted", changed=70), "Aborted", 70, None),
        (a_job("j", "Terminated"), "Terminated", 100, None),
    ],
)
def test_outcomes_of_deleted_jobs(last: Any, outcome: str, ended: float, exit_code: int | None) -> None:
    story = Story()
    story.tell(0, a_job("j"))
    story.tell(100, last, deleted=True)
    record = story.job()
    assert (record.outcome, seconds(record.ended), record.exit_code, record.live) == (outcome, ended, exit_code, False)


def test_a_job_that_is_resumed_has_not_ended() -> None:
    story = Story()
    story.tell(0, a_job("j", "Aborted", changed=0))
    assert story.job().ended
    story.tell(10, a_job("j", "Pending", changed=10))
    record = story.job()
    assert (record.ended, record.outcome) == (0, "")


def test_a_job_that_failed_once_and_then_succeeded_has_exit_code_0() -> None:
    story = Story()
    story.tell(0, a_job("j"))
    story.tell(61, a_pod("p", uid="a", **FAILED), deleted=True)
    assert story.job().exit_code == 3
    story.tell(99, a_pod("p", uid="b", bound=70, created=70, phase="Succeeded", ended=90))
    story.tell(99, a_job("j", "Completed", changed=95))
    assert story.job().exit_code == 0


def flow_of() -> Any:
    flow = JOB_FLOWS.struct(metadata=a_job("f").metadata)
    flow.metadata.uid = uid_of(JOB_FLOWS, "f")
    return flow


def flow_stories() -> dict[str, Callable[[Story], None]]:
    flow_ref, flow = owner(JOB_FLOWS, "f"), flow_of()

    def told(*order: Object) -> Callable[[Story], None]:
        def tell(story: Story) -> None:
            for number, obj in enumerate(order):
                story.tell(number, obj)

        return tell

    job = a_job("j", parent=flow_ref)
    pod = a_pod("p")
    return {
        "flow, job, gang, pod": told(flow, job, GROUP(), pod),
        "pod, gang, job, flow": told(pod, GROUP(), job, flow),
        "gang, pod, flow, job": told(GROUP(), pod, flow, job),
        "job, pod, gang, flow": told(job, pod, GROUP(), flow),
    }


@pytest.mark.parametrize("order", flow_stories())
def test_pods_belong_to_the_uppermost_job_in_whatever_order_it_is_heard_of(order: str) -> None:
    story = Story()
    story.store()
    flow_stories()[order](story)
    kept = story.store(9)
    assert [each.job for each in kept.intervals] == [uid_of(JOB_FLOWS, "f")]
    assert set(kept.jobs) == {uid_of(JOB_FLOWS, "f")}
    assert kept.jobs[uid_of(JOB_FLOWS, "f")].pods == 1


def test_a_job_that_names_no_queue_is_in_that_of_its_gang_in_whatever_order_they_are_heard_of() -> None:
    """Kubernetes' own jobs and most others: waiting times and ends count for the queue that held their pods."""
    for order in flow_stories():
        story = Story()
        flow_stories()[order](story)
        assert story.store(9).jobs[uid_of(JOB_FLOWS, "f")].queue == "q", order
    story, flow = Story(), flow_of()
    story.tell(0, flow)
    story.tell(1, a_group("s", queue="first", parent=owner(JOB_FLOWS, "f")))
    assert story.store(2).jobs[uid_of(JOB_FLOWS, "f")].queue == "first"
    story.tell(3, a_group("s", queue="second", parent=owner(JOB_FLOWS, "f")))
    assert story.store(4).jobs[uid_of(JOB_FLOWS, "f")].queue == "second"


def test_a_gang_without_a_job_stands_for_itself_and_has_its_owners_name() -> None:
    story = Story()
    pod = a_pod("solo", alone=True, gang="g", bound=1)
    group = a_group("g")
    group.metadata.owner_references = [owner(PODS, "solo")]
    story.tell(1, pod)
    story.tell(2, group)
    story.tell(60, a_pod("solo", alone=True, gang="g", bound=1, phase="Failed", ended=50, exit_code=9))
    done = a_group("g")
    done.metadata.owner_references, done.status.phase = group.metadata.owner_references, "Completed"
    story.tell(61, done)
    [(uid, record)] = story.store().jobs.items()
    assert uid == uid_of(POD_GROUPS, "g")
    assert (record.kind, record.name, record.outcome, record.exit_code) == ("Pod", "solo", "Failed", 9)
    assert seconds(record.ended) == 50


@pytest.mark.parametrize(
    ("labelled", "owned", "resource"),
    [(True, True, NODE_CHECKS.resource), (True, False, PODS.resource), (False, True, PODS.resource)],
)
def test_the_pods_of_a_node_check_are_its_own_and_a_label_alone_hides_nothing(
    labelled: bool, owned: bool, resource: str
) -> None:
    pod = a_pod("check-1", gang="", check="gpus", bound=1)
    pod.metadata.labels = pod.metadata.labels if labelled else None
    pod.metadata.owner_references = pod.metadata.owner_references if owned else None
    story = Story()
    story.tell(2, pod)
    assert [(each.name, each.resource) for each in story.store().jobs.values()] == [("check-1", resource)]


def test_deleting_a_gang_whose_pods_all_succeeded_is_no_failure() -> None:
    story = Story()
    story.tell(0, a_group("g"))
    story.tell(5, a_pod("p", alone=True, gang="g", phase="Succeeded", ended=4, bound=1))
    story.tell(9, a_group("g"), deleted=True)
    assert [each.outcome for each in story.store().jobs.values()] == ["Completed"]


def test_a_pod_whose_job_went_before_it_was_heard_of_adds_to_the_stored_record() -> None:
    story = Story()
    story.tell(0, a_job("j"))
    story.tell(50, a_job("j", "Completed", changed=50), deleted=True)
    story.store(50)
    story.tell(51, a_pod("p", bound=5, phase="Succeeded", ended=40), deleted=True)
    changes = story.ledger.take(0)
    [(_, again)] = changes.jobs.items()
    assert again is not None
    assert not again.seen  # what is stored of the job stays as it is
    assert [each and each.job for each in changes.intervals.values()] == [uid_of(JOBS, "j")]


def test_what_a_list_lacks_is_charged_until_the_server_was_last_heard_of() -> None:
    story = Story()
    story.tell(0, a_job("j"))
    story.tell(5, a_pod("p", bound=5))
    story.tell(5, a_pod("stays", bound=5))
    story.alive(30)
    story.miss(a_pod("p", bound=5), deleted=True)
    story.miss(a_job("j"), deleted=True)
    story.relist(9000, PODS, JOBS, POD_GROUPS)
    assert story.lines(9000) == [("p", "q", 5, 30, "Deleted"), ("stays", "q", 5, None, "")]
    record = story.job()
    assert (record.outcome, record.live) == ("Deleted", False)


def test_an_object_that_a_list_could_not_decode_is_still_there() -> None:
    story = Story()
    story.tell(5, a_pod("p", bound=5))
    story.ledger.replace(PODS, [], "9", 1_700_000_000_000 + 60_000, unread=["uid-ns-p"])
    assert story.lines() == [("p", "default", 5, None, "")]


def test_old_events_change_nothing() -> None:
    story = Story()
    early = a_pod("p", bound=5)
    story.tell(5, early)
    story.tell(61, a_pod("p", bound=5, **DONE))
    story.tell(62, a_pod("p", bound=5, **DONE), deleted=True)
    story.again(99, early)
    assert story.lines() == [("p", "default", 5, 60, "Succeeded")]


def test_shares_are_noted_where_they_change() -> None:
    story = Story()
    story.tell(0, queue("q", deserved={"gpu": 4}, capability={"gpu": 8}))
    story.tell(0, node("n1", gpu=8))
    story.tell(0, GROUP())
    for at in (1, 2):
        story.ledger.sample(at)
    story.tell(5, a_pod("p", bound=5))
    story.ledger.sample(6)
    story.tell(7, node("n1", gpu=8), deleted=True)
    story.tell(8, queue("q", deserved={"gpu": 4}, capability={"gpu": 8}), deleted=True)
    story.ledger.sample(9)
    gpu = [each for each in story.store().everything.shares if each.resource == "nvidia.com/gpu"]
    assert [(each.at, each.used, each.deserved, each.capability) for each in gpu if each.queue == "q"] == [
        (1, 0, 4000, 8000),
        (6, 1000, 4000, 8000),
        (9, 1000, 0, 0),
    ]
    assert [(each.at, each.capacity) for each in gpu if each.queue == CLUSTER] == [(1, 8000), (9, 0)]


def test_shares_are_not_noted_again_after_a_restart() -> None:
    story = Story()
    story.tell(0, queue("q", deserved={"gpu": 4}))
    story.ledger.sample(1)
    story.store()
    story.crash()
    story.relist(5, QUEUES, NODES)
    story.ledger.sample(6)
    assert not story.ledger.take(0).shares


def test_links_of_deleted_objects_are_forgotten_in_time() -> None:
    story = Story()
    story.tell(0, a_job("j"))
    story.tell(1, a_job("j"), deleted=True)
    assert story.store(2).everything.links[uid_of(JOBS, "j")] is not None
    assert story.store(2000).everything.links[uid_of(JOBS, "j")] is None


def test_jobs_between_a_job_and_its_pods_have_no_record() -> None:
    story = Story()
    parts = JobSet(metadata=a_job("s").metadata)
    parts.metadata.uid = uid_of(JOB_SETS, "s")
    story.ledger.apply(JOB_SETS, parts, 1_700_000_000_000)
    story.tell(3, a_pod("p", parent=owner(JOB_SETS, "s"), bound=2))
    assert set(story.store().jobs) == {uid_of(JOB_SETS, "s")}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("gpu.intel.com/i915", True),
        ("volcano.sh/vgpu-number", True),
        ("volcano.sh/vgpu-memory", False),
        ("volcano.sh/vgpu-memory-percentage", False),
        ("volcano.sh/gpu-memory", False),
        ("aliyun.com/gpu-count", True),
        ("aliyun.com/gpu-mem", False),
        ("aliyun.com/gpu-core", False),
        ("aliyun.com/gpu-core.percentage", False),
        ("alibabacloud.com/gpu-milli", False),
        ("tke.cloud.tencent.com/qgpu-core", False),
        ("nvidia.com/gpumem", False),
        ("nvidia.com/gpucores", False),
        ("cpu", False),
        ("rdma/hca", False),
    ],
)
def test_cards(name: str, counts: bool) -> None:
    assert is_gpu(name) is counts


def test_a_pod_that_names_its_node_itself_holds_nothing_before_the_node_has_spoken() -> None:
    story = Story()
    story.tell(0, a_pod("p", alone=True, gang="", phase="Pending", bound=None))
    assert story.lines(5) == []
    story.tell(9, a_pod("p", alone=True, gang="", phase="Running", bound=None))
    assert [(start, end) for _, _, start, end, _ in story.lines(10)] == [(9.0, None)]
    refused = a_pod("q", alone=True, gang="", phase="Failed", bound=None)
    refused.status.container_statuses, refused.status.start_time = None, "2026-01-01T00:00:00Z"
    story.tell(10, refused)
    assert len(story.lines(11)) == 1
