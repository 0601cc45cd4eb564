"""Which jobs a recording holds, and what is assumed of those whose end it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.annotations import RUN_SECONDS
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from unisono.api.core.pod import PodCondition
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.keys import GROUP_NAME
from unisono.api.times import rfc3339
from unisono.simulator.experiment import History, jobs_of

START = 1_700_000_000.0


def group(name: str, at: float, phase: Any, queue: str = "left", members: int = 2, **notes: str) -> PodGroup:
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        creation_timestamp=rfc3339(START + at),
        annotations={RUN_SECONDS: notes["states"]} if notes else None,
    )
    amounts = {"cpu": str(4 * members), "nvidia.com/gpu": str(2 * members), "count/pods": str(members)}
    spec = PodGroupSpec(min_member=members, queue=queue, min_resources=amounts)
    return PodGroup(metadata=meta, spec=spec, status=PodGroupStatus(phase=phase))


def pod(name: str, of: str, started: float | None) -> Pod:
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", annotations={GROUP_NAME: of})
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": "4", "nvidia.com/gpu": 2}))
    status = PodStatus(phase="Pending")
    if started is not None:
        time = rfc3339(START + started)
        status.conditions = [PodCondition(type="PodScheduled", status="True", last_transition_time=time)]
    spec = PodSpec(containers=[container], node_name=None if started is None else "node")
    return Pod(metadata=meta, spec=spec, status=status)


def history() -> History:
    """Two jobs that ran 100 and 300 seconds, one that still runs, and four that never started."""
    found = History()
    for name, began, ended in (("short", 10.0, 110.0), ("long", 20.0, 320.0)):
        found.take("ADDED", group(name, 0, "Completed"), START)
        for number in range(2):
            found.take("ADDED", pod(f"{name}-{number}", name, began), START + began)
            found.take("DELETED", pod(f"{name}-{number}", name, began), START + ended)
    found.take("ADDED", group("running", 30, "Running", "right"), START + 30)
    for number in range(2):
        found.take("ADDED", pod(f"running-{number}", "running", 60.0), START + 60)
    found.take("ADDED", group("made", 40, "Inqueue"), START + 40)
    for number in range(2):
        found.take("ADDED", pod(f"made-{number}", "made", None), START + 40)
    found.take("ADDED", group("kept-out", 50, "Pending", members=3), START + 50)
    found.take("ADDED", group("states", 55, "Pending", states="77"), START + 55)
    found.take("ADDED", group("elsewhere", 56, None, "third"), START + 56)
    found.take("ADDED", group("long-gone", 1, "Completed"), START + 57)
    found.end = START + 1060
    return found


def test_jobs_that_did_not_start_or_end_are_kept_as_censored() -> None:
    jobs = {job.name: job for job in jobs_of(history())}
    told = {name: (job.submit, job.run_seconds, job.censored) for name, job in jobs.items()}
    assert told == {
        "default.short": (0, 100, False),
        "default.long": (0, 300, False),
        "default.running": (30, 1000, True),
        "default.made": (40, 200, True),
        "default.kept-out": (50, 200, True),
        "default.states": (55, 77, True),
        "default.elsewhere": (56, 300, True),
    }
    for name in ("default.made", "default.kept-out", "default.running"):
        (role,) = jobs[name].roles
        assert (role.cpu_milli, role.gpus, dict(role.resources)) == (4000, 2, {})
    assert (jobs["default.kept-out"].pods, jobs["default.kept-out"].gang) == (3, 3)


def test_without_any_start_there_is_nothing_to_assume_run_times_from() -> None:
    found = History()
    found.take("ADDED", group("waits", 0, "Pending"), START)
    assert jobs_of(found) == []


@pytest.mark.parametrize("phase", ["Completed", "Running", "Unknown"])
def test_gangs_whose_pods_were_gone_before_the_recording_are_left_out(phase: Any) -> None:
    found = history()
    found.take("ADDED", group("before", 2, phase), START)
    assert "default.before" not in {job.name for job in jobs_of(found)}
