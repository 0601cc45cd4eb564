"""Kinds that other programs define and run, and whose pods come to our schedulers: tables alone."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.jobkinds.kind import NOTE, JobKind, noted


class ForeignObject(Object):
    """An object of which we know where some things stand."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)


_SPARK_GROUP = "sparkoperator.k8s.io"
LEADER_WORKER_SETS: Final = Kind(
    "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", ForeignObject, status_subresource=True
)
SPARK_APPLICATIONS: Final = Kind(
    _SPARK_GROUP, "v1beta2", "SparkApplication", "sparkapplications", ForeignObject, status_subresource=True
)
SCHEDULED_SPARK_APPLICATIONS: Final = Kind(
    _SPARK_GROUP,
    "v1beta2",
    "ScheduledSparkApplication",
    "scheduledsparkapplications",
    ForeignObject,
    status_subresource=True,
)
_LWS = ("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate")


def _spark(kind: Kind[Any], at: str) -> JobKind:
    """Of Spark's operator: driver and executor have annotations without metadata, and templates besides."""
    roles = (f"{at}.driver", f"{at}.executor")
    templates = tuple(f"{each}.template" for each in roles)
    notes = tuple(f"{each}.{NOTE.removeprefix('metadata.')}" for each in roles)
    return JobKind(kind, templates, queues=(f"{at}.batchSchedulerOptions.queue", *notes, *noted(*templates)))


FOREIGN: tuple[JobKind, ...] = (
    JobKind(LEADER_WORKER_SETS, _LWS, queues=noted(*_LWS)),
    _spark(SPARK_APPLICATIONS, "spec"),
    _spark(SCHEDULED_SPARK_APPLICATIONS, "spec.template"),
)
