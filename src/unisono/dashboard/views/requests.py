"""What pods ask for, computed once for all pods that ask for the same (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unisono.api.resources import pod_requests

if TYPE_CHECKING:
    from unisono.api.core import PodSpec, ResourceRequirements

# The cache is emptied when it holds this many kinds of pods.
_MOST = 4096
_known: dict[tuple[Any, ...], Mapping[str, int]] = {}


def requests_of(spec: PodSpec) -> Mapping[str, int]:
    """`pod_requests` of a pod, in engine units; pods that ask for the same share one mapping, which nobody changes.

    Raises:
        QuantityError: an amount is none.

    """
    if spec.init_containers or spec.resources is not None or spec.overhead:
        return pod_requests(spec)
    key = tuple(_told(each.resources) for each in spec.containers or ())
    found = _known.get(key)
    if found is None:
        found = pod_requests(spec)
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = found
    return found


def _told(resources: ResourceRequirements | None) -> tuple[Any, ...]:
    if resources is None:
        return ()
    return tuple((resources.requests or {}).items()), tuple((resources.limits or {}).items())
