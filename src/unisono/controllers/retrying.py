"""Try again at once when what refused pods has changed: a ResourceQuota, or a missing account or priority class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unisono.api.core import PriorityClass, ResourceQuota, ServiceAccount
from unisono.api.kinds import PRIORITY_CLASSES, RESOURCE_QUOTAS, SERVICE_ACCOUNTS
from unisono.kube.client import EventType
from unisono.kube.controller import Context
from unisono.kube.informer import Informer


def retry_when_allowed(context: Context, owners: Informer[Any]) -> None:
    """Queue owners when pods may be created that were refused before.

    That is when what a quota of their namespace allows changes or a quota is deleted, and when a service account or a
    priority class is created.
    """

    def keys(changed: ResourceQuota | ServiceAccount) -> list[str]:
        prefix = f"{changed.metadata.namespace}/"
        return [key for key in owners.keys() if key.startswith(prefix)]  # noqa: SIM118 # an informer is no mapping

    context.watch(RESOURCE_QUOTAS, keys, when=_allows_other_amounts)
    context.watch(SERVICE_ACCOUNTS, keys, when=_is_new)
    retry_when_classes_come(context, owners)


def retry_when_classes_come(context: Context, owners: Informer[Any]) -> Informer[PriorityClass]:
    """Queue all owners when a priority class is created; answers the cache of priority classes."""

    def keys(_: PriorityClass) -> Iterable[str]:
        return list(owners.keys())

    return context.watch(PRIORITY_CLASSES, keys, when=_is_new)


def _is_new(event: EventType, *_: object) -> bool:
    return event == "ADDED"


def _allows_other_amounts(event: EventType, new: ResourceQuota, old: ResourceQuota | None) -> bool:
    return event == "DELETED" or (old is not None and old.spec.hard != new.spec.hard)
