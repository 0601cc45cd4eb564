"""``bus.volcano.sh``: Command."""

from __future__ import annotations

from unisono.api.base import Object, OwnerReference


class Command(Object):
    """A one-shot order to a job or queue; deleted before it is carried out.

    Attributes:
        action: such as AbortJob, ResumeJob, OpenQueue, CloseQueue.
        target: the job or queue.
        reason: why, for machines.
        message: why, for people.

    """

    action: str | None = None
    target: OwnerReference | None = None
    reason: str | None = None
    message: str | None = None
