"""The Volcano job that all programs submit: two pods that run for half a second."""

from __future__ import annotations

from typing import Any


def job(name: str, **labels: str) -> dict[str, Any]:
    """A Volcano job of two pods."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"unisono.io/run-seconds": "0.5"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 2,
            "queue": "default",
            "tasks": [{"name": "work", "replicas": 2, "template": template}],
        },
    }
