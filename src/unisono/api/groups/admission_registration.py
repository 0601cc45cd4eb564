"""``admissionregistration.k8s.io/v1``: which requests are shown to whose webhooks."""

from __future__ import annotations

from typing import Any

from unisono.api.base import Base, Base64, Int32, LabelSelector, Object, Required
from unisono.api.kind import Kind

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


MUTATING_WEBHOOKS: Kind[MutatingWebhookConfiguration] = Kind(
    GROUP,
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    MutatingWebhookConfiguration,
    False,
    categories=("api-extensions",),
)
VALIDATING_WEBHOOKS: Kind[ValidatingWebhookConfiguration] = Kind(
    GROUP,
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    ValidatingWebhookConfiguration,
    False,
    categories=("api-extensions",),
)
WEBHOOK_KINDS: tuple[Kind[Any], ...] = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
