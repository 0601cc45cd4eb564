"""The status of an Application from what came of it in each cluster (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from unisono.api.base import Condition
from unisono.api.conditions import find_condition
from unisono.api.groups.fleet import Application, ApplicationStatus, ClusterSyncStatus
from unisono.fleet.applications.bundle import Destinations, PlacedPolicy

READY: Final = "Ready"
_LONGEST = 1024
# A status names each place. With more than a few places messages are shorter: it stays below the largest object.
_FEW_PLACES, _SHORT = 200, 160


@dataclass(frozen=True, slots=True)
class Result:
    """One policy in one cluster.

    Attributes:
        synced: the cluster has everything.
        objects: how many objects it has.
        message: why it lacks some, or a remark.

    """

    synced: bool
    objects: int = 0
    message: str = ""


_UNSEEN: Final = Result(False, 0, "not looked at yet")


def status_of(
    application: Application,
    wanted: Destinations,
    results: Mapping[PlacedPolicy, Result],
    leaving: Mapping[PlacedPolicy, Result],
    now: str,
) -> ApplicationStatus:
    """The status to write.

    Args:
        application: as it is stored.
        wanted: where its policies go.
        results: what came of them so far.
        leaving: what they brought to clusters that they no longer go to, and why it is still there.
        now: the time, for conditions that change.

    """
    if wanted.problem:
        # What was brought stays as it is, and so does what is known of it.
        clusters = application.status.clusters
        return _status(application, clusters, False, "NoDestination", wanted.problem, now)
    longest = _LONGEST if len(wanted.places) + len(leaving) <= _FEW_PLACES else _SHORT
    rows = [_row(place, results.get(place, _UNSEEN), longest) for place in wanted.places]
    rows += [_row(place, leaving[place], longest) for place in sorted(leaving)]
    late = [row for row in rows if not row.synced]
    if not late:
        return _status(application, rows, True, "Synced", "", now)
    first = late[0]
    more = f" (and {len(late) - 1} more)" if len(late) > 1 else ""
    return _status(application, rows, False, "NotSynced", f"{first.cluster}/{first.policy}: {first.message}{more}", now)


def brought(application: Application) -> list[PlacedPolicy]:
    """The policies in clusters that the status names: they may have objects there."""
    return [PlacedPolicy(row.cluster or "", row.policy or "") for row in application.status.clusters or ()]


def _row(place: PlacedPolicy, result: Result, longest: int) -> ClusterSyncStatus:
    return ClusterSyncStatus(
        cluster=place.cluster,
        policy=place.policy,
        synced=result.synced,
        objects=result.objects,
        message=result.message[:longest] or None,
    )


def _status(
    application: Application, clusters: list[ClusterSyncStatus] | None, ready: bool, reason: str, message: str, now: str
) -> ApplicationStatus:
    old = application.status
    before = find_condition(old.conditions, READY)
    status = "True" if ready else "False"
    since = before.last_transition_time if before is not None and before.status == status else now
    condition = Condition(
        type=READY, status=status, reason=reason, message=message[:_LONGEST] or None, last_transition_time=since
    )
    return ApplicationStatus(
        conditions=[condition],
        clusters=clusters or None,
        source_status=old.source_status,
        sync_status=old.sync_status,
        observed_generation=application.metadata.generation,
    )
