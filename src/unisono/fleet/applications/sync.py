"""Brings the objects of one policy to one cluster, and takes away what the policy no longer has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from unisono.api.annotations import APPLICATION, HUB
from unisono.api.base import Condition
from unisono.api.conditions import find_condition
from unisono.api.groups.fleet import Application, ApplicationStatus, ClusterSyncStatus
from unisono.errors import ApiError, ConfigError, Invalid, NotFound
from unisono.fleet.applications.bundle import ClusterTarget, Destinations, PlacedPolicy, Ref, belongs_to, rank
from unisono.fleet.members.joining import ACCOUNT_NAMESPACE
from unisono.kube.discovery import UnknownKind

# The status of an Application from what came of it in each cluster (pure).

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


# What a policy has brought to a cluster: a record beside the objects, so that nothing is forgotten in a crash (pure).
#
# The record is a ConfigMap of the member. It is written with the old and the new objects before the first of them is
# applied, and with the new ones alone after the old ones are gone.

NAMESPACE: Final = ACCOUNT_NAMESPACE
_OBJECTS = "objects"


def record_ref(hub: str, application: str, policy: str) -> Ref:
    """Where the record of a policy is kept in its clusters."""
    digest = hashlib.sha256(json.dumps([hub, application, policy]).encode()).hexdigest()[:20]
    return Ref("v1", "ConfigMap", NAMESPACE, f"application-{digest}")


def record_brought(ref: Ref, refs: Iterable[Ref], *, hub: str, application: str, policy: str) -> dict[str, Any]:
    """The ConfigMap that says what was brought."""
    listed = [[each.api_version, each.kind, each.namespace, each.name] for each in sorted(refs)]
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {HUB: hub},
            "annotations": {APPLICATION: application, "unisono.io/policy": policy},
        },
        "data": {_OBJECTS: json.dumps(listed)},
    }


def recorded(value: Mapping[str, Any] | None) -> set[Ref]:
    """The objects that a record names; none for one that is missing or cannot be read."""
    try:
        listed = json.loads(((value or {}).get("data") or {}).get(_OBJECTS, "[]"))
        return {Ref(*map(str, each)) for each in listed if len(each) == 4}
    except (ValueError, TypeError, AttributeError):
        return set()


def to_delete(before: Iterable[Ref], wanted: Iterable[Ref]) -> list[Ref]:
    """Objects that are no longer wanted, what others need last.

    An object whose API version alone has changed is the same object.
    """
    kept = {(_group(each), each.kind, each.namespace, each.name) for each in wanted}
    gone = [each for each in before if (_group(each), each.kind, each.namespace, each.name) not in kept]
    return sorted(gone, key=lambda each: (-rank(each.kind), each))


def _group(ref: Ref) -> str:
    return ref.api_version.rpartition("/")[0]


_TOLD: Final = 3


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose objects they are.

    Attributes:
        hub: identity of the hub.
        application: ``NAMESPACE/NAME``.
        policy: name of the policy.
    """

    hub: str
    application: str
    policy: str

    @property
    def record(self) -> Ref:
        """Where a cluster keeps the record of the policy's objects."""
        return record_ref(self.hub, self.application, self.policy)


@dataclass(slots=True)
class Outcome:
    """What came of one policy in one cluster.

    Attributes:
        objects: how many of its objects are in the cluster.
        problems: what hinders the others, one sentence each.
    """

    objects: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """The first problems in one line; empty without any."""
        more = len(self.problems) - _TOLD
        return "; ".join(self.problems[:_TOLD]) + (f"; and {more} more" if more > 0 else "")


async def sync(
    target: ClusterTarget,
    objects: Sequence[Mapping[str, Any]],
    owner: Owner,
    *,
    namespace: str,
    prune: bool,
    force: bool,
) -> Outcome:
    """Apply what the policy has and delete what it had.

    One object that the cluster refuses is told; the others go on.

    Args:
        target: the cluster.
        objects: made by ``bundle``.
        owner: whose they are.
        namespace: for objects of namespaced kinds that say none.
        prune: whether objects that are no longer wanted are deleted.
        force: whether an object that cannot be changed is deleted, to be made again.

    Raises:
        ApiError: the cluster does not answer, or the record cannot be read or written.
    """
    outcome = Outcome()
    located: list[tuple[Ref, Mapping[str, Any]]] = []
    for manifest in objects:
        try:
            located.append((await target.locate(manifest, namespace), manifest))
        except UnknownKind as error:
            outcome.problems.append(str(error))
    desired = {ref for ref, _ in located}
    before = await _recorded(target, owner)
    await _record(target, owner, before, before | desired)
    for name in sorted({ref.namespace for ref in desired if ref.namespace} - _namespaces(desired)):
        await target.need_namespace(name)
    for ref, manifest in located:
        try:
            await _apply(target, ref, manifest, owner, force=force)
        except (ConfigError, ApiError, UnknownKind) as error:
            if isinstance(error, ApiError) and error.code >= 500:
                raise
            outcome.problems.append(f"{ref}: {error}")
        else:
            outcome.objects += 1
    # A kind that is not served may be that of an object of before: nothing goes before all is known.
    if len(located) == len(objects):
        kept = await _delete(target, to_delete(before, desired), owner) if prune else set()
        await _record(target, owner, before | desired, desired | kept)
    return outcome


async def remove(target: ClusterTarget, owner: Owner, *, prune: bool = True) -> bool:
    """Take everything that the policy brought out of a cluster; answers whether all of it is gone.

    Raises:
        ApiError: the cluster does not answer, or refuses.
    """
    before = await _recorded(target, owner)
    kept = await _delete(target, to_delete(before, ()), owner) if prune else set()
    if kept:
        return False
    record = await target.get(owner.record)
    if record is not None:
        await target.delete(owner.record, record["metadata"].get("uid", ""))
    return True


async def _apply(target: ClusterTarget, ref: Ref, manifest: Mapping[str, Any], owner: Owner, *, force: bool) -> None:
    live = await target.get(ref)
    if live is not None and not belongs_to(live, owner.application, owner.hub):
        other = (live.get("metadata", {}).get("annotations") or {}).get(APPLICATION)
        whose = f"belongs to the Application {other}" if other else "exists already, and no Application brought it"
        raise ConfigError(f"{whose}; to hand it over, annotate it with {APPLICATION}={owner.application}")
    try:
        await target.apply(ref, manifest)
    except Invalid:
        if not force or live is None:
            raise
        await target.delete(ref, live["metadata"].get("uid", ""))
        await target.apply(ref, manifest)


async def _delete(target: ClusterTarget, refs: Iterable[Ref], owner: Owner) -> set[Ref]:
    """Delete objects that are the owner's; answers those that stay because the cluster refuses."""
    kept: set[Ref] = set()
    for ref in refs:
        try:
            live = await target.get(ref)
            if live is not None and belongs_to(live, owner.application, owner.hub):
                await target.delete(ref, live["metadata"].get("uid", ""))
        except UnknownKind:
            continue  # its kind is gone, and all objects of it
        except ApiError as error:
            if error.code >= 500:
                raise
            kept.add(ref)
    return kept


async def _recorded(target: ClusterTarget, owner: Owner) -> set[Ref]:
    try:
        return recorded(await target.get(owner.record))
    except NotFound:
        return set()


async def _record(target: ClusterTarget, owner: Owner, before: set[Ref], refs: set[Ref]) -> None:
    if refs == before:
        return
    await target.need_namespace(NAMESPACE)
    record = record_brought(owner.record, refs, hub=owner.hub, application=owner.application, policy=owner.policy)
    await target.apply(owner.record, record)


def _namespaces(refs: Iterable[Ref]) -> set[str]:
    return {ref.name for ref in refs if ref.kind == "Namespace" and ref.api_version == "v1"}
