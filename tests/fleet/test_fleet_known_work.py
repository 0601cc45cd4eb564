"""What stands for a job is made again when what it is made of changes, and not otherwise."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api.annotations import CLUSTER, DISPATCH
from unisono.api.groups.batch import Job
from unisono.api.kinds import JOBS
from unisono.fleet.dispatch.controller import KnownWork

CONTAINER = {"name": "c", "image": "i"}
SPEC = {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 2, "template": {"spec": {"containers": [CONTAINER]}}}]}


def job(**more: Any) -> Job:
    meta = {"name": "j", "namespace": "d", "uid": "u", "generation": 1, **more}
    return msgspec.convert({"metadata": meta, "spec": SPEC}, Job)


def smaller(found: Job) -> Job:
    found.spec.tasks[0].replicas = 1
    return found


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        (job(), False),
        (job(resourceVersion="9", annotations={CLUSTER: "a", DISPATCH: "1"}), False),
        (job(annotations={"volcano.sh/x": "y"}), True),
        (job(labels={"a": "b"}), True),
        (job(generation=2), True),
        (job(uid="v"), True),
    ],
)
def test_what_makes_it_anew(changed, again):
    known = KnownWork(lambda _name: 0)
    first = known.of(JOBS, job(), 0.0)
    assert (known.of(JOBS, changed, 0.0) is not first) is again


def test_priority_classes_and_the_end_of_a_job_are_forgotten():
    known = KnownWork(lambda _name: 0)
    first = known.of(JOBS, job(), 0.0)
    known.clear()
    second = known.of(JOBS, job(), 0.0)
    assert second is not first
    known.forget("d/j")
    assert known.of(JOBS, job(), 0.0) is not second


def test_a_change_of_the_spec_is_seen():
    known = KnownWork(lambda _name: 0)
    assert len(known.of(JOBS, job(), 0.0).pods) == 2
    assert len(known.of(JOBS, smaller(job(generation=2)), 0.0).pods) == 1
