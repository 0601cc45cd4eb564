"""What manifests for a cluster take for granted: namespaces and queues that they name and do not bring (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from unisono.api.keys import CONFIG_MAP_NAMESPACE, POD_QUEUE, QUEUE_NAME
from unisono.api.kinds import QUEUES

if TYPE_CHECKING:
    from unisono.cli.manifests import Manifest

# What every control plane has.
_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease", CONFIG_MAP_NAMESPACE})
_QUEUES = frozenset({"default", "root"})


def missing_prerequisites(manifests: Sequence[Manifest], namespace: str | None) -> list[dict[str, Any]]:
    """Namespaces, then queues, that a control plane of its own needs before these manifests can be created.

    Args:
        manifests: all that are about to be created.
        namespace: of objects that name none, where the user says so.

    """
    namespaces = dict.fromkeys(name for each in manifests if (name := each.metadata.get("namespace")))
    if namespace:
        namespaces[namespace] = None
    queues = dict.fromkeys(name for each in manifests for name in _queues(each.value))
    brought = {(each.kind, each.name) for each in manifests}
    wanted = [("v1", "Namespace", name) for name in namespaces if name not in _NAMESPACES]
    wanted += [(QUEUES.api_version, QUEUES.kind, name) for name in queues if name not in _QUEUES]
    return [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
        for version, kind, name in wanted
        if isinstance(name, str) and (kind, name) not in brought
    ]


def _queues(value: Any) -> Iterator[str]:
    """Queues that an object names: in ``spec.queue``, a scheduling policy, or the annotations of its pods."""
    if isinstance(value, list):
        for item in value:
            yield from _queues(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("queue", QUEUE_NAME, POD_QUEUE):
                if isinstance(item, str) and item:
                    yield item
            elif key not in ("containers", "initContainers", "data", "stringData"):
                yield from _queues(item)
