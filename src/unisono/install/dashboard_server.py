"""The dashboard's Deployment: one replica, since sessions are kept in memory, and an account without any rights."""

from __future__ import annotations

from typing import Any

from unisono.install import workloads

NAME = "unisono-dashboard"
COMPONENT = "dashboard"
PAGE_PORT, STATUS_PORT = 8090, 8084
_SERVICE = f"{NAME}:http"
_RBAC = "rbac.authorization.k8s.io"
_TRUST = "/etc/unisono"
# Every namespace has it: who signs the API server's certificate.
_AUTHORITY = "kube-root-ca.crt"


def dashboard_server(options: workloads.InstallOptions) -> list[dict[str, Any]]:
    """ServiceAccount, Service and Deployment; nothing is bound to the account, and its token is not mounted.

    With a history, users may ask it questions through the API server.
    """
    meta = {"name": NAME, "namespace": options.namespace, "labels": workloads.labels(COMPONENT)}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": _service()},
        *(readers(options) if options.shows_history else ()),
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": workloads.selector(COMPONENT)},
                "template": {"metadata": {"labels": workloads.labels(COMPONENT)}, "spec": _pod(options)},
            },
        },
    ]


def service_path(namespace: str) -> str:
    """Where an API server passes requests on to the dashboard of an installation."""
    return f"/api/v1/namespaces/{namespace}/services/{_SERVICE}/proxy"


def readers(options: workloads.InstallOptions) -> list[dict[str, Any]]:
    """Every user of the cluster may ask through the API server; what is answered is up to the rights of each."""
    meta = {"name": "unisono-history-questions", "namespace": options.namespace, "labels": workloads.labels(COMPONENT)}
    rule = {"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": [_SERVICE], "verbs": ["get"]}
    everybody = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
    role = {"apiGroup": _RBAC, "kind": "Role", "name": meta["name"]}
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": meta, "rules": [rule]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": role,
            "subjects": [everybody],
        },
    ]


def arguments(options: workloads.InstallOptions) -> list[str]:
    """The command line."""
    return [
        "dashboard-server",
        f"--listen=:{STATUS_PORT}",
        f"--serve=:{PAGE_PORT}",
        f"--certificate-authority={_TRUST}/ca.crt",
        f"--system-namespace={options.namespace}",
        *(f"--name={name}" for name in options.dashboard_names),
        *(["--behind-https"] if options.dashboard_names else []),
        *([f"--token-header={options.dashboard_token_header}"] if options.dashboard_token_header else []),
        *([f"--history-dsn-file={workloads.HISTORY_FILE}"] if options.history_readers else []),
        *([f"--history-prometheus={options.history_prometheus}"] if options.history_prometheus else []),
    ]


def _service() -> dict[str, Any]:
    ports = [
        {"name": "http", "port": PAGE_PORT, "targetPort": "http"},
        {"name": "metrics", "port": STATUS_PORT, "targetPort": "metrics"},
    ]
    return {"selector": workloads.selector(COMPONENT), "ports": ports}


def _pod(options: workloads.InstallOptions) -> dict[str, Any]:
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": workloads.POD_SECURITY,
        "containers": [
            {
                "name": COMPONENT,
                "image": options.image,
                "args": arguments(options),
                "ports": [
                    {"name": "http", "containerPort": PAGE_PORT},
                    {"name": "metrics", "containerPort": STATUS_PORT},
                ],
                "livenessProbe": workloads.probe("/livez", failures=6),
                "readinessProbe": workloads.probe("/readyz", failures=3),
                "startupProbe": workloads.probe("/livez", failures=60, period=2),
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
                "securityContext": workloads.HARDENED,
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # nosec B108 # the pod's own volume
                    {"name": "trust", "mountPath": _TRUST, "readOnly": True},
                    *([workloads.HISTORY_MOUNT] if options.history_readers else []),
                ],
            }
        ],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "trust", "configMap": {"name": _AUTHORITY, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            *([workloads.history_volume(options.history_readers)] if options.history_readers else []),
        ],
    }
