"""Whose pod it was: found through what stands between, and after all of it is gone."""

from __future__ import annotations

from typing import Any

from unisono.api.base import Object, ObjectMeta, OwnerReference
from unisono.api.core import Pod
from unisono.api.flow_kinds import JOB_FLOWS
from unisono.cli.owners import Lineage


def made(kind: type[Object], name: str, *owners: str, namespace: str = "default") -> Any:
    references = [OwnerReference(api_version="v1", kind="Any", name=uid, uid=uid) for uid in owners]
    return kind(metadata=ObjectMeta(name=name, namespace=namespace, uid=name, owner_references=references or None))


def test_a_pod_belongs_to_the_job_at_the_top() -> None:
    lineage = Lineage([(JOB_FLOWS.resource, "default", "steps"), ("Job", "default", "alone")])
    lineage.saw(JOB_FLOWS.resource, made(Object, "steps"))
    lineage.saw("Job", made(Object, "steps-prepare", "steps"))
    lineage.saw("Job", made(Object, "alone"))
    assert lineage.job_of(made(Pod, "steps-prepare-t-0", "steps-prepare")) == "steps"
    assert lineage.job_of(made(Pod, "alone-t-0", "alone")) == "alone"


def test_others_belong_to_nobody() -> None:
    lineage = Lineage([("Job", "default", "mine")])
    lineage.saw("Job", made(Object, "mine", namespace="elsewhere"))
    lineage.saw("Job", made(Object, "yours"))
    for pod in (made(Pod, "a", "yours"), made(Pod, "b", "mine"), made(Pod, "c"), made(Pod, "d", "unknown")):
        assert lineage.job_of(pod) is None


def test_owners_in_a_circle_come_to_an_end() -> None:
    lineage = Lineage([("Job", "default", "mine")])
    lineage.saw("Job", made(Object, "a", "b"))
    lineage.saw("Job", made(Object, "b", "a"))
    assert lineage.job_of(made(Pod, "p", "a")) is None
