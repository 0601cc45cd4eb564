"""``autoscaling.x-k8s.io``: ProvisioningRequest, and the PodTemplates it refers to; not kinds that Unisono serves."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.conditions import is_true
from unisono.api.core import PodTemplateSpec
from unisono.api.kind import Kind
from unisono.api.meta import Condition

CLASS_OF_GROUP = "unisono.io/provisioning-class"
"""On a PodGroup, or on the job that it is made for: the class of its ProvisioningRequests."""
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
"""On a pod: it uses what this request provisions, and asks for no nodes of its own."""
CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
"""On a pod: the class of that request."""


class PodTemplate(Object):
    """What pods will look like (v1)."""

    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)


class PodTemplateRef(Base):
    """A PodTemplate of the same namespace."""

    name: str = ""


class PodSet(Base):
    """So many pods that are alike."""

    pod_template_ref: PodTemplateRef = msgspec.field(default_factory=PodTemplateRef)
    count: int = 0


class ProvisioningRequestSpec(Base):
    """What is asked for; it cannot be changed."""

    provisioning_class_name: str = ""
    pod_sets: list[PodSet] | None = None
    parameters: dict[str, str] | None = None


class ProvisioningRequestStatus(Base):
    """Conditions Accepted, Provisioned, Failed, BookingExpired, CapacityRevoked."""

    conditions: list[Condition] | None = None


class ProvisioningRequest(Object):
    """Nodes for a group of pods, all or none."""

    spec: ProvisioningRequestSpec = msgspec.field(default_factory=ProvisioningRequestSpec)
    status: ProvisioningRequestStatus = msgspec.field(default_factory=ProvisioningRequestStatus)

    def has(self, condition: str) -> bool:
        """The condition is true."""
        return is_true(self.status.conditions, condition)


POD_TEMPLATES: Kind[PodTemplate] = Kind("", "v1", "PodTemplate", "podtemplates", PodTemplate)
PROVISIONING_REQUESTS: Kind[ProvisioningRequest] = Kind(
    "autoscaling.x-k8s.io",
    "v1",
    "ProvisioningRequest",
    "provisioningrequests",
    ProvisioningRequest,
    status_subresource=True,
)
