"""``admissionregistration.k8s.io/v1``: which requests are shown to whose webhooks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from unisono.api.base import Base, Base64, Int32, LabelSelector, Object, Required
from unisono.api.conditions import is_true
from unisono.api.core import Pod, Service
from unisono.api.kind import Kind, served

GROUP = "admissionregistration.k8s.io"
CONDITION_VARIABLES = frozenset(("object", "oldObject", "request"))
"""Names that the expression of a match condition may use."""


class ServiceReference(Base):
    """A Service that leads to a webhook."""

    namespace: Required = ""
    name: Required = ""
    path: str | None = None
    port: Int32 | None = None


class WebhookClientConfig(Base):
    """Where a webhook listens, and who signs its certificate."""

    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: Base64 | None = None


class RuleWithOperations(Base):
    """Requests by group, version, resource, scope and what they do; a star means all."""

    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None


class MatchCondition(Base):
    """A CEL expression that must hold."""

    name: Required = ""
    expression: Required = ""


class ValidatingWebhook(Base):
    """A webhook that says yes or no."""

    name: Required = ""
    client_config: WebhookClientConfig | None = None
    rules: list[RuleWithOperations] | None = None
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str | None = None
    timeout_seconds: Int32 | None = None
    admission_review_versions: list[str] | None = None
    match_conditions: list[MatchCondition] | None = None


class MutatingWebhook(ValidatingWebhook):
    """A webhook that may change objects, too."""

    reinvocation_policy: str | None = None


class ValidatingWebhookConfiguration(Object):
    """Webhooks that are asked before an object is stored."""

    webhooks: list[ValidatingWebhook] | None = None


class MutatingWebhookConfiguration(Object):
    """Webhooks that may change an object before it is checked."""

    webhooks: list[MutatingWebhook] | None = None


_OF_VOLCANO = re.compile(r"(mutate|validate)[a-z]+\.volcano\.sh")
_OF_OPERATORS = re.compile(
    r"(defaulter|validator)\.\w+\.(trainer|training-operator)\.kubeflow\.org|[mv](jobset|raycluster|rayjob|rayservice)\.kb\.io"
)


def does_our_work(hook: ValidatingWebhook) -> bool:
    """Whether it belongs to the admission of Volcano or of an operator whose kinds our API server checks itself."""
    service = hook.client_config.service if hook.client_config is not None else None
    if service is None:
        return False
    of_volcano = service.name.endswith("admission-service") and _OF_VOLCANO.fullmatch(hook.name)
    return bool(of_volcano or _OF_OPERATORS.fullmatch(hook.name))


def serves(service: Service, pod: Pod) -> bool:
    """Whether a Service leads to a pod: it is selected, ready, and has an address."""
    labels, selector = pod.metadata.labels or {}, service.spec.selector or {}
    ready = is_true(pod.status.conditions, "Ready")
    fits = bool(selector) and all(labels.get(key) == value for key, value in selector.items())
    return fits and ready and bool(pod.status.pod_ip) and pod.metadata.deletion_timestamp is None


def hindrance(reference: ServiceReference, service: Service | None, pods: Iterable[Pod]) -> str:
    """Why nothing answers at a webhook's Service: it is not there, or none of its pods is ready; empty where one may.

    Args:
        reference: where the webhook listens.
        service: of that name; None where there is none.
        pods: of its namespace.
    """
    where = f"service {reference.namespace}/{reference.name}"
    if service is None:
        return f"{where} is not there"
    if service.spec.type == "ExternalName" or any(serves(service, pod) for pod in pods):
        return ""
    return f"{where} has no pod that is ready"


MUTATING_WEBHOOKS = served(GROUP, "v1", MutatingWebhookConfiguration, namespaced=False, categories=("api-extensions",))
VALIDATING_WEBHOOKS = served(
    GROUP, "v1", ValidatingWebhookConfiguration, namespaced=False, categories=("api-extensions",)
)
WEBHOOK_KINDS: tuple[Kind[Any], ...] = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
