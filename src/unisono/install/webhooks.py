"""Webhook configurations: which requests the API server shows to ``unisono webhook``.

The authority that signs the webhook's certificate is written into them by the webhook itself.
"""

from __future__ import annotations

from typing import Any

from unisono.api import kinds
from unisono.api.admission_registration import VALIDATING_WEBHOOKS
from unisono.api.fleet_kinds import FLEET_KINDS
from unisono.api.flow_kinds import CRON_JOBS, FLOW_KINDS, HYPER_JOBS, JOB_FLOWS
from unisono.api.kind import Kind
from unisono.install.options import InstallOptions, labels

NAME = "unisono"
"""Name of both configurations."""
_SECONDS = 10

_DEFAULTED: tuple[Kind[Any], ...] = (kinds.JOBS, kinds.POD_GROUPS, kinds.QUEUES, CRON_JOBS, JOB_FLOWS, HYPER_JOBS)
_CHECKED: tuple[Kind[Any], ...] = (kinds.JOBS, kinds.POD_GROUPS, *FLOW_KINDS, *FLEET_KINDS)


def webhooks(options: InstallOptions) -> list[dict[str, Any]]:
    """The mutating and the validating configuration.

    Our own kinds wait for an answer; pods, which clusters live by, go on without one.
    """
    mutating = [
        _hook("defaults", "/mutate", [_rule(_DEFAULTED, "CREATE", "UPDATE")], options, reinvocationPolicy="Never")
    ]
    checking = [
        _hook("objects", "/validate", [_rule(_CHECKED, "CREATE", "UPDATE")], options),
        _hook("queues", "/validate", [_rule((kinds.QUEUES,), "CREATE", "UPDATE", "DELETE")], options),
        _hook(
            "pods",
            "/validate",
            [_rule((kinds.PODS,), "CREATE")],
            options,
            failurePolicy="Ignore",
            timeoutSeconds=3,
            matchConditions=[{"name": "our-pods", "expression": _ours(options)}],
        ),
    ]
    return [
        _configuration("MutatingWebhookConfiguration", mutating),
        _configuration("ValidatingWebhookConfiguration", checking),
    ]


def _ours(options: InstallOptions) -> str:
    names = ", ".join(f"'{name}'" for name in options.scheduler_names)
    return f"has(object.spec.schedulerName) && object.spec.schedulerName in [{names}]"


def _configuration(kind: str, hooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": kind,
        "metadata": {"name": NAME, "labels": labels("webhook")},
        "webhooks": hooks,
    }


def _hook(name: str, path: str, rules: list[dict[str, Any]], options: InstallOptions, **more: Any) -> dict[str, Any]:
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
        **more,
    }


def _rule(of: tuple[Kind[Any], ...], *operations: str) -> dict[str, Any]:
    return {
        "apiGroups": sorted({kind.group for kind in of}),
        "apiVersions": sorted({version for kind in of for version in (kind.version, *kind.alias_versions)}),
        "operations": list(operations),
        "resources": sorted({kind.plural for kind in of}),
        "scope": "*",
    }
