"""Labels and annotations that tie pods, pod groups and queues to their jobs."""

from __future__ import annotations

from unisono.api.keys import (
    COOLDOWN_TIME,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    PREEMPTABLE,
    REVOCABLE_ZONE,
)

# Which restart killed the pod: written before the job's status, so that a crash in between loses no retry.
RESTART_ROUND = "unisono.io/restart-round"


# Annotations and labels that pods and pod groups take over from their job or from the pod they are made for.
INHERITED_ANNOTATIONS = (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE)
INHERITED_LABELS = (PREEMPTABLE, COOLDOWN_TIME)


def disruption_budget(annotations: dict[str, str]) -> dict[str, str]:
    """The job's disruption budget: the least available pods, or else the most unavailable ones."""
    for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE):
        if key in annotations:
            return {key: annotations[key]}
    return {}


def inherited_annotations(annotations: dict[str, str]) -> dict[str, str]:
    """What a pod or pod group takes over from these annotations."""
    taken = {key: annotations[key] for key in INHERITED_ANNOTATIONS if key in annotations}
    return taken | disruption_budget(annotations)


def inherited_labels(labels: dict[str, str]) -> dict[str, str]:
    """What a pod or pod group takes over from these labels."""
    return {key: labels[key] for key in INHERITED_LABELS if key in labels}
