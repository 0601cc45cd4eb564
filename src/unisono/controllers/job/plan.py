"""What a decision about a job wants done, in the order in which it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from unisono.api.base import Object
from unisono.api.batch import JobStatus
from unisono.api.bus import Command
from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.scheduling import PodGroup
from unisono.controllers.notices import Notice

__all__ = ["Notice", "Plan", "PodSlot", "Resource"]


@dataclass(frozen=True, slots=True)
class Resource:
    """An object that the job needs besides its pods.

    Attributes:
        kind: its kind.
        obj: how it should be; owned by the job.
        permanent: made once, never changed, and kept when the job ends (claims hold data).
        what: name of what made it, for messages: ``plug-in svc``, ``volume``.
        warning: reason of the event when it cannot be made.
        first_data: further entries of ``data``, asked for when the object is made and left alone from then on.

    """

    kind: Kind[Any]
    obj: Object
    permanent: bool = False
    what: str = ""
    warning: str = "PluginError"
    first_data: Callable[[], dict[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class PodSlot:
    """A pod to make."""

    task: str
    index: int
    name: str


@dataclass(slots=True)
class Plan:
    """Steps in order: mark pods, write the status, drop commands, then objects, the pod group and the pods.

    A status that changes the phase is written alone: what follows from the new phase is decided from what is then
    stored, so a crash at any point leaves nothing half done that the next decision would not finish.

    Attributes:
        marks: pods to annotate before they are killed, name to annotations.
        status: new status, None when it is the stored one.
        commands: commands that have been taken into account.
        ensure: objects that must exist.
        remove_resources: what plug-ins made must go; done before the status forgets it.
        create_group: pod group to make.
        patch_group: merge patch for the pod group.
        delete_group: pod group to delete.
        delete_pods: pods to delete.
        create_pods: pods to make, in order.
        notices: events to record.
        requeue_after: seconds after which to decide again.

    """

    marks: dict[str, dict[str, str]] = field(default_factory=dict)
    status: JobStatus | None = None
    commands: list[Command] = field(default_factory=list)
    ensure: list[Resource] = field(default_factory=list)
    remove_resources: bool = False
    create_group: PodGroup | None = None
    patch_group: Mapping[str, Any] | None = None
    delete_group: PodGroup | None = None
    delete_pods: list[Pod] = field(default_factory=list)
    create_pods: list[PodSlot] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    requeue_after: float | None = None

    def warn(self, reason: str, message: str, once: str = "") -> None:
        """Record a warning on the job."""
        self.notices.append(Notice("Warning", reason, message, once))

    def tell(self, reason: str, message: str, once: str = "") -> None:
        """Record a normal event on the job."""
        self.notices.append(Notice("Normal", reason, message, once))
