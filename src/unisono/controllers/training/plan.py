"""What a decision about a training job wants done, in the order in which it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono.api.base import Object
from unisono.api.core import Pod, Service
from unisono.api.kind import Kind
from unisono.api.scheduling import PodGroup
from unisono.controllers.job.plan import Notice, Resource
from unisono.controllers.patching import Json


@dataclass(slots=True)
class Plan:
    """Steps in order: annotations, status, notices, then objects, the pod group, Services, pods, and the job's own end.

    Each plan can be carried out any number of times and given up at any point: the next decision goes on from there.

    Attributes:
        annotations: of the job itself, to merge; None as a value removes one.
        status: new status, None when it is the stored one.
        notices: events to record.
        ensure: objects that must exist.
        remove: objects that the job has made and that must go.
        patches: merge patches for objects of the job's namespace, by kind and name.
        create_group: pod group to make.
        patch_group: name of the pod group, and a merge patch for it.
        delete_group: pod group to delete.
        delete_services: Services of pods to delete.
        create_services: Services of pods to make.
        delete_pods: pods to delete.
        create_pods: pods to make, in order.
        delete_job: the job's time is over.
        requeue_after: seconds after which to decide again.

    """

    annotations: dict[str, str | None] = field(default_factory=dict)
    status: msgspec.Struct | None = None
    notices: list[Notice] = field(default_factory=list)
    ensure: list[Resource] = field(default_factory=list)
    remove: list[tuple[Kind[Any], Object]] = field(default_factory=list)
    patches: list[tuple[Kind[Any], str, Json]] = field(default_factory=list)
    create_group: PodGroup | None = None
    patch_group: tuple[str, Json] | None = None
    delete_group: PodGroup | None = None
    delete_services: list[Service] = field(default_factory=list)
    create_services: list[Service] = field(default_factory=list)
    delete_pods: list[Pod] = field(default_factory=list)
    create_pods: list[Pod] = field(default_factory=list)
    delete_job: bool = False
    requeue_after: float | None = None

    def warn(self, reason: str, message: str, once: str = "") -> None:
        """Record a warning on the job; with ``once`` a single time per job and key."""
        self.notices.append(Notice("Warning", reason, message, once))

    def tell(self, reason: str, message: str, once: str = "") -> None:
        """Record a normal event on the job; with ``once`` a single time per job and key."""
        self.notices.append(Notice("Normal", reason, message, once))

    def again_within(self, seconds: float) -> None:
        """Decide again after so long at the latest."""
        wait = max(0.0, seconds)
        self.requeue_after = wait if self.requeue_after is None else min(self.requeue_after, wait)
