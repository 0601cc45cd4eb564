"""The kubeconfig file with which kubectl and every other client find and trust the server."""

from __future__ import annotations

import base64
from pathlib import Path

from unisono.api.yaml import dump
from unisono.apiserver.access.files import write_private


def write_kubeconfig(
    path: Path,
    server_url: str,
    ca_pem: bytes,
    token: str,
    *,
    name: str = "unisono",
    namespace: str = "default",
) -> None:
    """Write a kubeconfig of one cluster, one user and one context, readable by its owner only.

    Args:
        path: where to; replaced atomically, mode 0600.
        server_url: ``https://host:port``.
        ca_pem: certificate of the authority that signed the server's certificate.
        token: bearer token of the user.
        name: name of the cluster, the user and the context.
        namespace: default namespace of the context.

    Raises:
        OSError: the file cannot be written.

    """
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": server_url,
                    "certificate-authority-data": base64.b64encode(ca_pem).decode(),
                },
            }
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, dump(config).encode())
