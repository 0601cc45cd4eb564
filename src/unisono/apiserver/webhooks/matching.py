"""Which webhooks a request is shown to (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.api.admission_registration import GROUP, MutatingWebhook, RuleWithOperations, ValidatingWebhook
from unisono.api.kind import Kind
from unisono.api.selecting import is_empty, selects

Labels = Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Target:
    """What of a request decides which webhooks see it.

    Attributes:
        kind: of the object, as it is stored.
        versions: in which the object can be shown, the one it was written in first.
        labels, old_labels: of the object and of what was there before; None where there is none.
        namespace_labels: of the object's namespace; None for objects that have none, which every selector fits.

    """

    kind: Kind[Any]
    operation: str
    subresource: str
    versions: tuple[str, ...]
    labels: Labels = None
    old_labels: Labels = None
    namespace_labels: Labels = None


def exempt(kind: Kind[Any]) -> bool:
    """Webhook configurations: who made a bad one must be able to repair it."""
    return kind.group == GROUP


def version_for(hook: ValidatingWebhook, target: Target) -> str | None:
    """The version in which a webhook wants to see an object; None when it does not want to."""
    if not _selected(hook, target):
        return None
    asked = target.versions if hook.match_policy != "Exact" else target.versions[:1]
    for version in asked:
        if any(_fits(rule, target, version) for rule in hook.rules or ()):
            return version
    return None


def _selected(hook: ValidatingWebhook, target: Target) -> bool:
    by_namespace = target.namespace_labels is not None and hook.namespace_selector is not None
    if by_namespace and not selects(hook.namespace_selector, target.namespace_labels):
        return False
    if hook.object_selector is None or is_empty(hook.object_selector):
        return True
    seen = [labels for labels in (target.labels, target.old_labels) if labels is not None]
    return any(selects(hook.object_selector, labels) for labels in seen)


def _fits(rule: RuleWithOperations, target: Target, version: str) -> bool:
    kind = target.kind
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return (
        _has(rule.operations, target.operation)
        and _has(rule.api_groups, kind.group)
        and _has(rule.api_versions, version)
        and rule.scope in (None, "*", scope)
        and _names(rule.resources or (), kind.plural, target.subresource)
    )


def _has(values: Iterable[str] | None, wanted: str) -> bool:
    return any(value in ("*", wanted) for value in values or ())


def _names(resources: Iterable[str], plural: str, subresource: str) -> bool:
    for resource in resources:
        name, _, below = resource.partition("/")
        if name in ("*", plural) and (below in ("*", subresource) if below else not subresource):
            return True
    return False


def again(hook: ValidatingWebhook) -> bool:
    """Whether a webhook wants to see an object that others changed after it."""
    return isinstance(hook, MutatingWebhook) and hook.reinvocation_policy == "IfNeeded"
