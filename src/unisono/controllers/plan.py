"""What a decision about a job of any kind wants done, in the order in which it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.documents import Json
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kind import Kind
from unisono.controllers.recorder import Notice

__all__ = ["BasePlan", "Notice", "Resource"]


@dataclass(frozen=True, slots=True)
class Resource:
    """An object that the job needs besides its pods.

    Attributes:
        kind: its kind.
        obj: how it should be; owned by the job.
        permanent: made once, never changed, and kept when the job ends (claims hold data).
        what: name of what made it, for messages: ``plug-in svc``, ``volume``.
        warning: reason of the event when it cannot be made.
        missing: it was looked for and is not there, so it is made even where it was made before.
        first_data: further entries of ``data``, asked for when the object is made and left alone from then on.
    """

    kind: Kind[Any]
    obj: Object
    permanent: bool = False
    what: str = ""
    warning: str = "PluginError"
    missing: bool = False
    first_data: Callable[[], dict[str, str]] | None = None


@dataclass(slots=True)
class BasePlan:
    """Steps in order: status, notices, then objects, the pod group and pods; each kind of job adds steps of its own.

    A plan can be carried out any number of times and given up at any point: the next decision goes on from there.

    Attributes:
        status: new status, None when it is the stored one.
        notices: events to record.
        remove: objects that the job has made and that must go.
        ensure: objects that must exist.
        patches: merge patches for objects of the job's namespace, by kind and name.
        delete_group: pod group to delete.
        create_group: pod group to make.
        patch_group: name of the pod group, and a merge patch for it.
        delete_pods: pods to delete.
        requeue_after: seconds after which to decide again.
    """

    status: msgspec.Struct | None = None
    notices: list[Notice] = field(default_factory=list)
    remove: list[tuple[Kind[Any], Object]] = field(default_factory=list)
    ensure: list[Resource] = field(default_factory=list)
    patches: list[tuple[Kind[Any], str, Json]] = field(default_factory=list)
    delete_group: PodGroup | None = None
    create_group: PodGroup | None = None
    patch_group: tuple[str, Json] | None = None
    delete_pods: list[Pod] = field(default_factory=list)
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
