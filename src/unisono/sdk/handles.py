"""Names of jobs of any kind, typed by the struct that holds such a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.sdk.views import JobView

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class JobHandle(Generic[T]):
    """One job by its names; every call of a client takes it as a job.

    Attributes:
        kind: such as ``PYTORCH_JOBS`` of ``unisono.api.kind_families``.
        namespace: of the job.
        name: of the job.

    """

    kind: Kind[T]
    namespace: str
    name: str

    def __str__(self) -> str:
        """``pytorchjob/train``."""
        return f"{self.kind.singular_name}/{self.name}"


JobRef = JobView | JobHandle[Any] | str
"""A job: what `submit` or `handle` answered; of a Volcano Job also its name, or ``namespace/name``."""
