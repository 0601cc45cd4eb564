"""Webhook configurations: which requests the API server shows to ``unisono webhook``.

The authority that signs the webhook's certificate is written into them by the webhook itself.
"""

from __future__ import annotations

from typing import Any

from unisono.api import kinds
from unisono.api.admission_registration import VALIDATING_WEBHOOKS
from unisono.api.fleet_kinds import FLEET_KINDS
from unisono.api.flow_kinds import CRON_JOBS, FLOW_KINDS, HYPER_JOBS, JOB_FLOWS
from unisono.api.keys import CONFIG_MAP_NAMES, CONFIG_MAP_SUFFIX
from unisono.api.kind import Kind
from unisono.api.training_kinds import KUBEFLOW_KINDS
from unisono.install.conditions import (
    changed,
    naming,
    not_made_by,
    not_of_components,
    not_of_operators,
    renaming,
    staying,
    unsealed,
)
from unisono.install.options import InstallOptions, labels
from unisono.jobkinds.registry import FAMILIES, foreign
from unisono.jobkinds.workloads import PODS_ALONE
from unisono.scheduler.config_advice import INSTALLED_NAME

NAME = "unisono"
"""Name of both configurations."""
_SECONDS = 10
_CONFIGURATION = (
    f"object.metadata.name in {[*CONFIG_MAP_NAMES, INSTALLED_NAME]} || "
    f"object.metadata.name.endsWith('{CONFIG_MAP_SUFFIX}')"
)

_QUEUES: tuple[Kind[Any], ...] = (kinds.QUEUES,)
_DEFAULTED: tuple[Kind[Any], ...] = (kinds.JOBS, CRON_JOBS, JOB_FLOWS, HYPER_JOBS)
_GROUPS: tuple[Kind[Any], ...] = (kinds.POD_GROUPS,)
_GANGS: tuple[Kind[Any], ...] = (kinds.JOBS, kinds.POD_GROUPS)
_CHECKED: tuple[Kind[Any], ...] = (*FLOW_KINDS, *FLEET_KINDS)
ASKED = frozenset((*_GANGS, *_CHECKED, *_QUEUES))
"""Kinds of ours whose objects are stored only when the webhook has said yes, or has checked what they are made from."""


def webhooks(options: InstallOptions) -> list[dict[str, Any]]:
    """The mutating and the validating configuration.

    Our own kinds wait for an answer, and only where there is something to complete or to check: never for a status.
    A new Job waits once: the review that completes it checks it, too, and its seal says so (decision 20).
    Whatever else names a queue, and only that, waits for an answer as well. What pods say besides is for a policy.
    """
    new, any_change = changed(), changed(annotations=True)
    once = {"reinvocationPolicy": "Never"}
    # Also after what other webhooks change: this review checks new Jobs, too.
    again = {"reinvocationPolicy": "IfNeeded"}
    ours = not_made_by("unisono-controllers", options.namespace)
    naming_queues = [
        (
            f"queues-of-{name}",
            # Those that are asked about in any case are here for what changes later.
            [_rule(tuple(each.kind for each in family if each.kind not in _GANGS), "CREATE", "UPDATE")]
            + [_rule((each.kind,), "UPDATE") for each in family if each.kind in _GANGS],
            [naming(family), renaming(), not_of_components(options.namespace)]
            + ([not_of_operators()] if family is PODS_ALONE else []),
        )
        for name, family in {**FAMILIES, "others": foreign()}.items()
    ]
    mutating = [
        _of_all(_hook("new-jobs", "/mutate", [_rule(_DEFAULTED, "CREATE")], options, **again)),
        _hook("jobs", "/mutate", [_rule(_DEFAULTED, "UPDATE")], options, new, **again),
        # A Job's gang is complete as its controller makes it; other gangs may have to go to their namespace's queue.
        _hook("groups", "/mutate", [_rule(_GROUPS, "CREATE", "UPDATE")], options, new, ours, **once),
        _hook("queues", "/mutate", [_rule(_QUEUES, "CREATE", "UPDATE")], options, any_change, **once),
        *(_hook(name, "/mutate", rules, options, *only, **again) for name, rules, only in naming_queues),
    ]
    checking = [
        _hook("gangs", "/validate", [_rule(_GANGS, "CREATE", "UPDATE")], options, new, ours, unsealed()),
        _hook("objects", "/validate", [_rule(_CHECKED, "CREATE", "UPDATE")], options, any_change),
        _hook("queues", "/validate", [_rule(_QUEUES, "CREATE", "UPDATE", "DELETE")], options, any_change),
        # Only warns, and so do training jobs: their own operator may check them, too.
        _hook(
            "training",
            "/validate",
            [_rule(KUBEFLOW_KINDS, "CREATE", "UPDATE")],
            options,
            new,
            failurePolicy="Ignore",
            timeoutSeconds=3,
        ),
        _hook(
            "configuration",
            "/validate",
            [_rule((kinds.CONFIG_MAPS,), "CREATE", "UPDATE")],
            options,
            {"name": "our-configuration", "expression": _CONFIGURATION},
            failurePolicy="Ignore",
            timeoutSeconds=3,
        ),
        *(_hook(name, "/validate", rules, options, *only) for name, rules, only in naming_queues),
    ]
    return [
        _configuration("MutatingWebhookConfiguration", mutating),
        _configuration("ValidatingWebhookConfiguration", checking),
    ]


def _configuration(kind: str, hooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": kind,
        "metadata": {"name": NAME, "labels": labels("webhook")},
        "webhooks": hooks,
    }


def _hook(
    name: str,
    path: str,
    rules: list[dict[str, Any]],
    options: InstallOptions,
    *conditions: dict[str, Any],
    **more: Any,
) -> dict[str, Any]:
    service = {"name": "unisono-webhook", "namespace": options.namespace, "path": path, "port": 443}
    return {
        "name": f"{name}.webhook.unisono",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "rules": rules,
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": _SECONDS,
        "matchConditions": [staying(), *conditions],
        **more,
    }


def _of_all(hook: dict[str, Any]) -> dict[str, Any]:
    """Without conditions: a server turns an object over for them, which costs more than they do."""
    del hook["matchConditions"]
    return hook


def _rule(of: tuple[Kind[Any], ...], *operations: str) -> dict[str, Any]:
    return {
        "apiGroups": sorted({kind.group for kind in of}),
        "apiVersions": sorted({version for kind in of for version in (kind.version, *kind.alias_versions)}),
        "operations": list(operations),
        "resources": sorted({kind.plural for kind in of}),
        "scope": "*",
    }
