"""One kubeconfig over a hub and its members, each a context by its name (pure)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from unisono.kube.kubeconfig import ClusterConfig


def merged(configs: Mapping[str, ClusterConfig], current: str) -> dict[str, Any]:
    """The kubeconfig.

    Args:
        configs: how each cluster is reached, by the name of its context.
        current: the context that is used where none is named.

    """
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": _cluster(each)} for name, each in configs.items()],
        "users": [{"name": name, "user": _user(each)} for name, each in configs.items()],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": each.namespace or "default"}}
            for name, each in configs.items()
        ],
    }


def _cluster(config: ClusterConfig) -> dict[str, Any]:
    found: dict[str, Any] = {"server": config.server}
    if config.ca is not None:
        found["certificate-authority-data"] = base64.b64encode(config.ca).decode()
    if config.tls_server_name:
        found["tls-server-name"] = config.tls_server_name
    return found


def _user(config: ClusterConfig) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if config.token:
        found["token"] = config.token
    if config.client_certificate is not None and config.client_key is not None:
        found["client-certificate-data"] = base64.b64encode(config.client_certificate).decode()
        found["client-key-data"] = base64.b64encode(config.client_key).decode()
    return found
