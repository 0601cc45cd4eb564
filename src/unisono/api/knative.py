"""``serving.knative.dev/v1``: Service, a server that is scaled by its load, with the fields of Knative's kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from unisono.api.base import Base, Condition, Int32, Object, ObjectMeta
from unisono.api.core import PodSpec
from unisono.api.keda import number

HPA_CLASS: Final = "hpa.autoscaling.knative.dev"
"""The class of services that a HorizontalPodAutoscaler scales."""
PORT: Final = 8080
MOST_REPLICAS: Final = 100
"""Of a service that states no bound."""
_MOST_STATED = 50_000


class RevisionSpec(PodSpec):
    """A pod that serves, and how many requests one takes at a time (0: any number)."""

    container_concurrency: Int32 | None = None
    timeout_seconds: Int32 | None = None
    response_start_timeout_seconds: Int32 | None = None
    idle_timeout_seconds: Int32 | None = None


class RevisionTemplate(Base):
    """The present revision."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: RevisionSpec = msgspec.field(default_factory=RevisionSpec)


class TrafficTarget(Base):
    """A part of the traffic and the revision that gets it."""

    tag: str | None = None
    revision_name: str | None = None
    configuration_name: str | None = None
    latest_revision: bool | None = None
    percent: int | None = None
    url: str | None = None


class ServingSpec(Base):
    """The server, and which revisions get how much of the traffic."""

    template: RevisionTemplate = msgspec.field(default_factory=RevisionTemplate)
    traffic: list[TrafficTarget] | None = None


class Addressable(Base):
    """Where something is reached."""

    name: str | None = None
    url: str | None = None


class ServingStatus(Base):
    """What has become of the server."""

    observed_generation: int | None = None
    conditions: list[Condition] | None = None
    annotations: dict[str, str] | None = None
    latest_ready_revision_name: str | None = None
    latest_created_revision_name: str | None = None
    url: str | None = None
    address: Addressable | None = None
    traffic: list[TrafficTarget] | None = None


class KnativeService(Object):
    """A server and the pods that its load needs."""

    spec: ServingSpec = msgspec.field(default_factory=ServingSpec)
    status: ServingStatus = msgspec.field(default_factory=ServingStatus)


def revision_of(service: KnativeService) -> str:
    """The name of the present revision."""
    return service.spec.template.metadata.name or f"{service.metadata.name}-{service.metadata.generation or 1:05}"


def port_of(service: KnativeService) -> int:
    """The port on which its container listens."""
    ports = [port for each in service.spec.template.spec.containers or () for port in each.ports or ()]
    return ports[0].container_port if ports else PORT


def stated(notes: Mapping[str, str], keys: Sequence[str], default: int) -> int:
    """A number of replicas that one of the annotations states; 0 and what is no number count as the default."""
    text = next((notes[key] for key in keys if key in notes), "")
    return min(int(number(text) or default), _MOST_STATED)
