"""Pods of jobs as the controller builds them, for tests that look at single objects."""

from __future__ import annotations

from typing import Any

from job_world import job

from unisono.controllers.job.plugins import load
from unisono.controllers.job.pods import PodBuilder
from unisono.controllers.job.view import JobView
from unisono.controllers.objects import to_json

OWNER = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "job",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def view_of(*tasks: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> JobView:
    given = job(*tasks, **spec)
    given.metadata.uid = "u1"
    given.metadata.annotations = annotations
    return JobView(given)


def built(view: JobView, name: str = "", index: int = 0) -> dict[str, Any]:
    chosen = view.task(name) or view.tasks[0]
    return to_json(PodBuilder(view, load(view)).build(chosen, index))


def env(pod: dict[str, Any], container: int = 0, where: str = "containers") -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in pod["spec"][where][container].get("env", ())}
