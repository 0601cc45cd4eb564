"""Try again at once when a ResourceQuota changes: pods that were refused may be created now."""

from __future__ import annotations

from typing import Any

from unisono.api.core import ResourceQuota
from unisono.api.kinds import RESOURCE_QUOTAS
from unisono.kube.client import EventType
from unisono.kube.controller import Context
from unisono.kube.informer import Informer


def retry_when_quotas_change(context: Context, owners: Informer[Any]) -> None:
    """Queue all owners of a namespace when what one of its quotas allows changes, or a quota is deleted."""

    def keys(quota: ResourceQuota) -> list[str]:
        prefix = f"{quota.metadata.namespace}/"
        return [key for key in owners.keys() if key.startswith(prefix)]  # noqa: SIM118 # an informer is no mapping

    context.watch(RESOURCE_QUOTAS, keys, when=_allows_other_amounts)


def _allows_other_amounts(event: EventType, new: ResourceQuota, old: ResourceQuota | None) -> bool:
    return event == "DELETED" or (old is not None and old.spec.hard != new.spec.hard)
