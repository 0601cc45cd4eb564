"""What a decision about a training job wants done besides what all kinds of jobs have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from unisono.api.core import Pod, Service
from unisono.controllers.parallel import SLICE
from unisono.controllers.plan import BasePlan


@dataclass(slots=True)
class Plan(BasePlan):
    """Steps in order: annotations, status, notices, then objects, the pod group, Services, pods, and the job's own end.

    Attributes:
        annotations: of the job itself, to merge; None as a value removes one.
        delete_services: Services of pods to delete.
        create_services: Services of pods to make.
        create_pods: make the pods, in order; each is built when its turn has come.
        delete_job: the job's time is over.

    """

    annotations: dict[str, str | None] = field(default_factory=dict)
    delete_services: list[Service] = field(default_factory=list)
    create_services: list[Service] = field(default_factory=list)
    create_pods: list[Callable[[], Pod]] = field(default_factory=list)
    delete_job: bool = False

    @property
    def full(self) -> bool:
        """Whether as much is to be made as one look makes: the rest waits for the next look, which comes at once."""
        full = len(self.create_pods) >= SLICE or len(self.create_services) >= SLICE
        if full:
            self.again_within(0.0)
        return full
