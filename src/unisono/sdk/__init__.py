"""The Python SDK: submit, follow and steer jobs from programs and notebooks, blocking or with asyncio."""

from __future__ import annotations

from unisono.api.verdict import Holder, Verdict
from unisono.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, Unavailable, UnisonoError
from unisono.sdk.aio import AsyncClient
from unisono.sdk.builders import Job
from unisono.sdk.client import Client
from unisono.sdk.endpoint import Endpoint, Where
from unisono.sdk.errors import BadWork, CannotShip, JobFailed, NoControlPlane, RemoteError, WaitTimeout
from unisono.sdk.gang import GangFunction, default_client, gang, map, rank, world_size
from unisono.sdk.handles import JobHandle
from unisono.sdk.joblogs import LogLine
from unisono.sdk.launch import GangOptions
from unisono.sdk.queues import QueueView
from unisono.sdk.views import JobView, PodEnd, TaskView

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
