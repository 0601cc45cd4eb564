"""The Python SDK: submit, follow and steer jobs from programs and notebooks, blocking or with asyncio."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unisono.api.pod_states import PodEnd
    from unisono.api.verdict import Holder, Verdict
    from unisono.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, Unavailable, UnisonoError
    from unisono.sdk.clients.aio import AsyncClient
    from unisono.sdk.clients.client import Client
    from unisono.sdk.clients.endpoint import Endpoint, Where
    from unisono.sdk.errors import BadWork, CannotShip, JobFailed, NoControlPlane, RemoteError, WaitTimeout
    from unisono.sdk.follow.following import LogLine
    from unisono.sdk.functions.gang import GangFunction, default_client, gang, map, rank, world_size
    from unisono.sdk.functions.launch import GangOptions
    from unisono.sdk.jobs.builders import Job
    from unisono.sdk.jobs.program import Program
    from unisono.sdk.overview.queues import QueueView
    from unisono.sdk.state.views import JobHandle, JobView, TaskView

# Where each name is defined: a command that needs one part of the SDK does not import all of it.
_HOMES = {
    "unisono.api.pod_states": ("PodEnd",),
    "unisono.api.verdict": ("Holder", "Verdict"),
    "unisono.errors": ("AlreadyExists", "ApiError", "Conflict", "Invalid", "NotFound", "Unavailable", "UnisonoError"),
    "unisono.sdk.clients.aio": ("AsyncClient",),
    "unisono.sdk.jobs.builders": ("Job",),
    "unisono.sdk.clients.client": ("Client",),
    "unisono.sdk.clients.endpoint": ("Endpoint", "Where"),
    "unisono.sdk.errors": ("BadWork", "CannotShip", "JobFailed", "NoControlPlane", "RemoteError", "WaitTimeout"),
    "unisono.sdk.functions.gang": ("GangFunction", "default_client", "gang", "map", "rank", "world_size"),
    "unisono.sdk.follow.following": ("LogLine",),
    "unisono.sdk.functions.launch": ("GangOptions",),
    "unisono.sdk.jobs.program": ("Program",),
    "unisono.sdk.overview.queues": ("QueueView",),
    "unisono.sdk.state.views": ("JobHandle", "JobView", "TaskView"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AlreadyExists",
    "ApiError",
    "AsyncClient",
    "BadWork",
    "CannotShip",
    "Client",
    "Conflict",
    "Endpoint",
    "GangFunction",
    "GangOptions",
    "Holder",
    "Invalid",
    "Job",
    "JobFailed",
    "JobHandle",
    "JobView",
    "LogLine",
    "NoControlPlane",
    "NotFound",
    "PodEnd",
    "Program",
    "QueueView",
    "RemoteError",
    "TaskView",
    "Unavailable",
    "UnisonoError",
    "Verdict",
    "WaitTimeout",
    "Where",
    "default_client",
    "gang",
    "map",
    "rank",
    "world_size",
]


def __getattr__(name: str) -> Any:
    """Import a name of the SDK when it is used."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """For completion in notebooks."""
    return sorted({*globals(), *__all__})
