"""Defaults of webhook configurations."""

from __future__ import annotations

from unisono.api.admission_registration import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from unisono.api.meta import LabelSelector

_TIMEOUT_SECONDS = 10


def default_webhooks(configuration: MutatingWebhookConfiguration | ValidatingWebhookConfiguration) -> None:
    """Requests fail with a webhook that does not answer within ten seconds, and all objects are shown to it."""
    for hook in configuration.webhooks or ():
        hook.failure_policy = hook.failure_policy or "Fail"
        hook.match_policy = hook.match_policy or "Equivalent"
        hook.namespace_selector = hook.namespace_selector or LabelSelector()
        hook.object_selector = hook.object_selector or LabelSelector()
        if hook.timeout_seconds is None:
            hook.timeout_seconds = _TIMEOUT_SECONDS
        if isinstance(hook, MutatingWebhook):
            hook.reinvocation_policy = hook.reinvocation_policy or "Never"
        for rule in hook.rules or ():
            rule.scope = rule.scope or "*"
        service = hook.client_config.service if hook.client_config else None
        if service is not None and service.port is None:
            service.port = 443
