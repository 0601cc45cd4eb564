"""A kopf operator: it annotates every Volcano job that it sees, posts an event, and counts finished jobs."""

from __future__ import annotations

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: object) -> None:
    settings.posting.enabled = True
    settings.scanning.disabled = False


@kopf.on.create("batch.volcano.sh", "v1alpha1", "jobs")
def seen(body: kopf.Body, patch: kopf.Patch, **_: object) -> None:
    patch.metadata.annotations["operator.example.io/seen"] = "yes"
    kopf.event(body, type="Normal", reason="Seen", message="the operator has seen the job")


@kopf.on.field("batch.volcano.sh", "v1alpha1", "jobs", field="status.state.phase", new="Completed")
def finished(patch: kopf.Patch, **_: object) -> None:
    patch.metadata.labels["operator.example.io/finished"] = "yes"
