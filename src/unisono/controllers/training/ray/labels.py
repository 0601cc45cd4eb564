"""Labels of Ray's pods, and names that are made from a cluster's name."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

NODE_TYPE: Final = "ray.io/node-type"
IS_RAY_NODE: Final = "ray.io/is-ray-node"
IDENTIFIER: Final = "ray.io/identifier"
ORIGIN_NAME: Final = "ray.io/originated-from-cr-name"
ORIGIN_KIND: Final = "ray.io/originated-from-crd"
SERVE: Final = "ray.io/serve"

# Prefixes of pod names are cut to so many letters.
_LONGEST = 50

GCS_PORT, DASHBOARD_PORT, CLIENT_PORT, METRICS_PORT, SERVE_PORT = 6379, 8265, 10001, 8080, 8000
# Where Ray's agent on each node listens, for its own cluster only.
AGENT_PORT = 52365
PORTS: Final = {
    "client": CLIENT_PORT,
    "dashboard": DASHBOARD_PORT,
    "gcs-server": GCS_PORT,
    "metrics": METRICS_PORT,
    "serve": SERVE_PORT,
}


def head_service(cluster: str) -> str:
    """Name of the head's Service."""
    return f"{cluster}-head-svc"


def serve_service(service: str) -> str:
    """Name of the Service of a RayService's applications."""
    return f"{service}-serve-svc"


def head_address(cluster: str, namespace: str) -> str:
    """Full name of the head's Service."""
    return f"{head_service(cluster)}.{namespace}.svc.cluster.local"


def letters(*parts: object) -> str:
    """Five letters that are the same for the same parts."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return base64.b32encode(digest).decode().lower()[:5]


def pod_name(prefix: str, *parts: object) -> str:
    """The prefix, cut, and letters made from ``parts``."""
    return f"{prefix[: _LONGEST - 1].rstrip('-.')}-{letters(*parts)}"
