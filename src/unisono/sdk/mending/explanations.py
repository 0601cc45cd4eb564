"""An explanation whose fix has been carried out in a copy of the cluster, until the job ran."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from unisono.api import kinds
from unisono.api.decode import decode
from unisono.api.kind_families import DEPLOYMENTS, STATEFUL_SETS
from unisono.api.kinds import PODS, QUEUES
from unisono.api.pod_states import has_ended
from unisono.api.selecting import pod_group_name
from unisono.errors import ApiError, UnisonoError
from unisono.gc_pauses import collector_paused
from unisono.jobkinds.registry import pods_wanted
from unisono.sdk.fixes.owners import Raw, read
from unisono.sdk.mending.until_it_runs import Ask, Cluster, Found, Told, adds_nodes, same, until_it_runs
from unisono.sdk.overview.components import server_time
from unisono.sdk.reasons.behind import add_what_others_know
from unisono.sdk.reasons.offered import against, offer_fixes
from unisono.sdk.state.dependents import dependents

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.api.verdict import Verdict
    from unisono.engine.config.model import SchedulerConfig
    from unisono.kube.http import HttpClient
    from unisono.sdk.fixes.fix import Fix
    from unisono.sdk.reasons.explanation import Explanation

_ENDED = ("Running", "Succeeded")
MOST_OBJECTS = 4000
"""Of a cluster that is copied: a copy of more takes longer than people wait for an answer."""
MOST_READ = 100_000
"""Of a cluster that is read: of a larger one nothing is tried for one job alone."""
MOST_WAITING = 20
"""Jobs that wait in a cluster: where there are more, the scheduler has not tried for each of them what would start it.
The engine looks for changes then for the one job alone, and what it finds is carried out first in a copy."""
ENGINE_SECONDS = 1.6
"""CPU time within which changes are tried for one job alone on a cluster that is not copied."""


async def mended(
    client: HttpClient, told: Explanation, item: Raw, ask: Ask, config: SchedulerConfig | None = None
) -> Explanation:
    """The explanation, with a fix first after which the job runs, where one is found.

    Where the user may not read what a scheduler goes by, or nothing is offered that could be tried, it stays as it is.

    Args:
        client: the server.
        told: what is known of the object so far.
        item: the object, with ``apiVersion`` and ``kind``.
        ask: explains the same object on another server.
        config: the scheduler's; None: the one in force is read.
    """
    if (
        kinds.find(item["apiVersion"], item["kind"]) in (None, QUEUES)
        or told.silent
        # A hub has no pods to carry anything out on; what is in the way in each member it has said.
        or told.fleet.cluster
        or told.fleet.reasons
        or not (told.verdicts or told.fixes or told.candidates)
    ):
        return told
    cluster, whole = await _cluster(client, config, item["metadata"].get("namespace", ""))
    if cluster is None:
        return told
    more = whole and _wants_more(told, item)
    crowded = _waiting(cluster) > MOST_WAITING
    late = crowded and await _ask_alone(client, told, item, cluster)
    if crowded:
        cluster = replace(cluster, groups=await _own_groups(client, told, item))
    if whole:
        _doubt(told, more=more)
    if not whole or not any(_can_be_tried(fix) for fix in (*told.fixes, *told.candidates)):
        late = late or (not crowded and await _ask_alone(client, told, item, cluster))
        return _as_far_as_tried(told, late=late, whole=whole)

    async def runs(copy: HttpClient, least: int) -> bool:
        return await all_run(copy, item, least)

    async def asked(copy: HttpClient) -> Told:
        again = await ask(copy)
        _doubt(again, more=more)
        return again

    async def accepting(copy: HttpClient, refusal: str) -> list[Fix]:
        return await against(copy, item, refusal)

    try:
        loop = asyncio.get_running_loop()
        known = told if crowded else None
        result = await loop.run_in_executor(None, until_it_runs, cluster, asked, runs, accepting, known)
    except (UnisonoError, OSError):  # the answer is true without it
        return told
    return _with(told, result)


def _waiting(cluster: Cluster) -> int:
    """How many jobs wait."""
    groups = (one for one in cluster.objects if one["kind"] == kinds.POD_GROUPS.kind)
    return sum((one.get("status") or {}).get("phase", "Pending") in ("Pending", "Inqueue") for one in groups)


async def _own_groups(client: HttpClient, told: Explanation, item: Raw) -> frozenset[str]:
    """PodGroups of the job, also those of which nothing is said because the server refuses their pods."""
    keys = {verdict.job for verdict in told.verdicts}
    kind, namespace = kinds.find(item["apiVersion"], item["kind"]), item["metadata"].get("namespace", "")
    if kind is not None and kind is not PODS:
        try:
            groups = (await dependents(client, kind.resource, decode(kind, item).obj)).groups
        except ApiError:
            groups = []
        keys.update(f"{namespace}/{group.metadata.name}" for group in groups)
    return frozenset(keys)


def _wants_more(told: Explanation, item: Raw) -> bool:
    """Whether it wants more pods than have to start together."""
    return len(told.verdicts) == 1 and 0 < told.verdicts[0].tasks_needed < pods_wanted(item)


def _doubt(told: Told, *, more: bool) -> None:
    """What the engine has tried for less than the whole is tried again; ``more``: for a gang that is not all of it.

    Pods that do not exist yet are imagined without what admission and other pods do to them: nodes may not help those.
    """
    if more:
        told.fixes = _untried(told.fixes)
    elif not any(one.task or one.reasons for one in told.verdicts):
        told.fixes = [fix if not adds_nodes(fix) else _untried([fix])[0] for fix in told.fixes]


def _untried(fixes: list[Fix]) -> list[Fix]:
    """What the engine has tried for the minimum of a gang only."""
    return [replace(fix, tried=False, change={**fix.change, "tried": False}) for fix in fixes]


def _can_be_tried(fix: Fix) -> bool:
    return bool(fix.operations) or (adds_nodes(fix) and not fix.tried)


def _with(told: Explanation, found: Found) -> Explanation:
    """The fix that was found first, and of the others what the search has learned."""
    told.fixes = [
        fix
        for fix in told.fixes
        if fix.tried or fix.text not in found.failed or (not fix.operations and found.fix is None)
    ]
    others = [_as_found(fix, found) for fix in told.fixes]
    if found.fix is not None:
        others = [fix for fix in others if not same(fix, found.fix)]
        if found.fix.operations and not adds_nodes(found.fix):
            # What may help stands only where nothing is known that does, or only machines that have to be had first.
            others = [fix for fix in others if fix.tried]
        told.verdicts = [
            one
            if found.fix.text in one.suggestion and one.change.get("tried") is not False and not found.causes[1:]
            else structs.replace(one, suggestion=found.fix.text)
            for one in told.verdicts
        ]
    first = found.fix
    if first is None and found.part is not None and not any(fix.tried for fix in others):
        first = found.part
        others = [fix for fix in others if not same(fix, found.part)]
    told.fixes = [*([first] if first is not None else ()), *others]
    told.then = list(found.causes[1:])
    return told


def _as_found(fix: Fix, found: Found) -> Fix:
    if fix.text in found.works:
        return replace(fix, tried=True, change={key: value for key, value in fix.change.items() if key != "tried"})
    # Where one change was not enough, the engine has not seen all that is in the way.
    if fix.text in found.failed or (found.fix is not None and found.causes[1:]):
        return _untried([fix])[0]
    return fix


async def _ask_alone(client: HttpClient, told: Explanation, item: Raw, cluster: Cluster) -> bool:
    """Take over what the engine finds for these jobs alone, in whatever place of the line they stand.

    Says whether the time for that was used up.
    """
    keys = {verdict.job for verdict in told.verdicts}
    if not keys:
        return False
    loop = asyncio.get_running_loop()
    verdicts, late = await loop.run_in_executor(None, _cycle_for, cluster, keys)
    told.verdicts = [verdicts.get(verdict.job, verdict) for verdict in told.verdicts]
    told.fixes = [each.here() for each in await offer_fixes(client, told, dict(item))]
    await add_what_others_know(client, told, dict(item))
    return late


def _as_far_as_tried(told: Explanation, *, late: bool, whole: bool) -> Explanation:
    """The explanation with a word on what was not tried.

    ``late``: the time has ended; ``whole``: the cluster is not too large for a copy.
    """
    if any(fix.tried for fix in told.fixes):
        return told
    if late:
        told.warnings.append(f"the search ended after {ENGINE_SECONDS:g} s: there may be a fix that was not tried")
    elif told.fixes and not whole:
        many = f"the cluster has more than {MOST_OBJECTS} objects"
        told.warnings.append(f"nothing was carried out in a copy of the cluster: {many}")
    return told


def _cycle_for(cluster: Cluster, keys: set[str]) -> tuple[dict[str, Verdict], bool]:
    """Verdicts of one cycle on a cluster for some jobs, by PodGroup; and whether the time for them was used up."""
    from unisono.engine.config_file.reader import default_config
    from unisono.engine.verdict import Asked
    from unisono.scheduler.explain import on_wire
    from unisono.scheduler.offline import decide, read_cluster

    with collector_paused():
        read = read_cluster(((one, one["metadata"]["name"]) for one in cluster.objects), checked=True)
    asked = Asked(keys.__contains__, ENGINE_SECONDS)
    decisions = decide(read, cluster.config or default_config(), cluster.now, monotonic=time.thread_time, asked=asked)
    late = decisions.seconds.get("explain", 0.0) >= ENGINE_SECONDS
    return {key: on_wire(one) for key, one in decisions.verdicts.items()}, late


async def _cluster(client: HttpClient, config: SchedulerConfig | None, namespace: str) -> tuple[Cluster | None, bool]:
    """The cluster where it may be read, and whether all of it was: of a large one only what scheduling reads."""
    from unisono.engine.config_file.reader import load_config
    from unisono.install.workloads import NAMESPACE
    from unisono.scheduler.feed import KINDS as SCHEDULED_BY
    from unisono.simulator.forecast.live import configuration_in_force
    from unisono.standalone.shadow import COPIED, TooLarge, read_cluster, without_lost_owners

    try:
        if config is None:
            followed = await configuration_in_force(client, (NAMESPACE,))
            if followed.hidden:
                return None, False
            config = load_config(followed.text, followed.name)
        now = await server_time(client)
        objects = await read_cluster(client, MOST_READ, SCHEDULED_BY)
        try:
            others = [kind for kind in COPIED if kind not in SCHEDULED_BY]
            rest = await read_cluster(client, MOST_OBJECTS - len(objects), others)
        except TooLarge:
            return Cluster(objects, config, now, namespace), False
        return Cluster(without_lost_owners([*objects, *rest]), config, now, namespace), True
    except UnisonoError:
        return None, False


async def all_run(client: HttpClient, item: Raw, least: int = 0) -> bool:
    """Whether all pods that an object wants at this time run, of its newest revision; or ``least`` of them."""
    meta, kind = item["metadata"], kinds.find(item["apiVersion"], item["kind"])
    live = await read(client, kind, meta["name"], meta.get("namespace")) if kind is not None else None
    if kind is None or live is None:
        return False
    obj = decode(kind, live).obj
    status = live.get("status") or {}
    if kind is PODS:
        return _runs(obj)
    if kind.kind == kinds.POD_GROUPS.kind:  # of either API group
        pods = (await client.list(PODS, meta.get("namespace"))).items
        mine = [pod for pod in pods if pod_group_name(pod.metadata.annotations, pod.spec) == meta["name"]]
        gang = getattr(obj.spec, "min_member", None) or 1
        return len(mine) >= gang and all(map(_runs, _living(mine)))
    try:
        pods = _living((await dependents(client, kind.resource, obj)).pods)
    except ApiError:
        return False
    if least:
        return sum(map(_runs, pods)) >= least
    desired = pods_wanted(live)
    if kind in (DEPLOYMENTS, STATEFUL_SETS):  # their pods are brought to a new revision, and are to be ready
        ready, updated = status.get("readyReplicas", 0), status.get("updatedReplicas", 0)
        if min(ready, updated) < desired or status.get("observedGeneration", 0) < live["metadata"].get("generation", 0):
            return False
    return bool(pods) and len(pods) >= desired and all(map(_runs, pods))


def _living(pods: list[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None and not (has_ended(pod) and not _runs(pod))]


def _runs(pod: Any) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase in _ENDED
