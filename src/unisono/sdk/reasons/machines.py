"""Machines on demand: which of the cluster's groups would bring some for a job, and what keeps the others from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unisono.api.core import Taint, Toleration
from unisono.api.decode import decode
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS, MAXIMUM
from unisono.api.kinds import NODES, PODS
from unisono.api.messages import plural
from unisono.api.names import nearest
from unisono.api.resources import readable
from unisono.api.verdict import Verdict
from unisono.errors import ApiError
from unisono.jobkinds.registry import job_kind_of
from unisono.sdk.fixes.change_texts import change_text
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.fixes.of_changes import FixMaker
from unisono.sdk.fixes.operations import patch
from unisono.sdk.fixes.owners import Raw

if TYPE_CHECKING:
    from unisono.controllers.node_scaling.decide import Demand, Pool
    from unisono.controllers.node_scaling.shrink import Held
    from unisono.kube.http import HttpClient

_MOST_GROUPS = 2
"""Groups that are spoken of: those that least is to be changed for."""
_MOST_CHANGES = 3
_LEAST_PART = 0.5
"""A pod that asks for twice as much as a machine has was not meant for it."""


@dataclass(frozen=True, slots=True)
class Machines:
    """What there is to say of a cluster's groups of machines, and what would let them bring machines for a job."""

    text: str = ""
    fixes: tuple[Fix, ...] = ()


async def machines_for(client: HttpClient, verdict: Verdict, root: Raw) -> Machines:
    """What keeps groups from bringing machines for a job that more nodes would start; empty where there are none."""
    from unisono.controllers.node_scaling.decide import CAUSES, Room, Trial, booting, demand_of, remainders, serve
    from unisono.controllers.node_scaling.provisioning import pool_of

    kind = job_kind_of(root)
    if verdict.cause not in CAUSES or kind is None:
        return Machines()
    try:
        groups = {one.key: one for one in (await client.list(MACHINE_DEPLOYMENTS)).items}
        nodes = (await client.list(NODES)).items if groups else ()
    except ApiError:  # few servers have them, and few users may
        return Machines()
    pools = [pool for one in groups.values() if (pool := pool_of(one)) is not None and not pool.failing]
    gang = [demand_of(each.spec, each.count) for each in kind.pods(decode(kind.kind, root).obj) if each.count]
    if not pools or not gang:
        return Machines()
    rooms = [Room(one.room, dict(one.room.offers)) for one in await _there(client, nodes)]
    gang = remainders([gang], rooms)[0]
    if not gang:  # there is room: it waits for something else
        return Machines()
    if 0 < verdict.tasks_needed <= verdict.tasks_placeable:  # the rest of a gang that has started
        groups_of = _named(sorted(_short(pool.name) for pool in pools if all(map(pool.takes, gang))))
        return Machines(f"{groups_of} bring machines for the minimum of a gang only, which this one has")
    if served := serve(gang, Trial(pools, booting(pools))):
        names = sorted(_short(name) for name, count in served.planned.items() if count)
        return Machines(f"{_named(names)} can bring machines for it" if names else "")
    ways = sorted(
        (way for pool in pools if (way := _way(pool, gang)) is not None), key=lambda way: (len(way.changes), way.most)
    )
    maker = FixMaker(client, root, root["metadata"].get("namespace", "default"))
    texts, fixes = list[str](), list[Fix]()
    for way in ways[:_MOST_GROUPS]:
        texts.append(f"{_named([_short(way.pool.name)])} {', '.join(way.told)}")
        change = way.changes[0] if len(way.changes) == 1 else {"kind": "Together", "changes": list(way.changes)}
        made = await maker.fix({**change, "tried": False}, change_text(change)) if way.changes else None
        fixes.append(_with_maximum(made, way, groups[way.pool.name].metadata.namespace or ""))
    return Machines("; ".join(texts), tuple(fixes))


@dataclass(frozen=True, slots=True)
class _Way:
    """What is to be done for one group to bring machines; ``most``: its new maximum, 0 where it stays."""

    pool: Pool
    changes: tuple[dict[str, Any], ...]
    told: tuple[str, ...]
    most: int


def _way(pool: Pool, gang: Sequence[Demand]) -> _Way | None:
    """How the whole gang gets places on machines of this group; None where it was not meant for them."""
    from unisono.controllers.node_scaling.decide import MOST_MACHINES, Trial, booting, serve

    changes, reasons = dict[str, dict[str, Any]](), dict[str, None]()
    fitted: list[Demand] = []
    for part in gang:
        misfits = list(_misfits(pool, part))
        changes |= {repr(sorted(change.items(), key=str)): change for change, _ in misfits if change}
        reasons |= dict.fromkeys(text for _, text in misfits)
        fit = replace(
            part,
            selector={key: pool.labels.get(key, value) for key, value in part.selector.items()},
            tolerations=(*part.tolerations, *map(_tolerating, pool.taints)),
            requests={
                name if name in pool.offers else nearest(name, pool.offers) or name: min(
                    amount, pool.offers.get(name, amount)
                )
                for name, amount in part.requests.items()
            },
        )
        if not all(change for change, _ in misfits) or not pool.takes(fit):
            return None
        fitted.append(fit)
    if len(changes) > _MOST_CHANGES:
        return None
    most = pool.most
    while serve(fitted, Trial([larger := replace(pool, most=most)], booting([larger]))) is None:
        most += 1
        if most > min(pool.most + sum(part.count for part in gang), MOST_MACHINES):
            return None
    if most > pool.most:
        reasons[f"may have {pool.most} {plural(pool.most, 'machine')}, and {most} are needed"] = None
    return _Way(pool, tuple(changes.values()), tuple(reasons), most if most > pool.most else 0)


def _misfits(pool: Pool, part: Demand) -> Iterator[tuple[dict[str, Any], str]]:
    """Why an empty machine of the group does not take such a pod, each with the change of the pod that helps."""
    from unisono.controllers.workloads.templates import tolerates

    for key, value in part.selector.items():
        if (has := pool.labels.get(key)) != value:
            change = {"kind": "UseLabel", "key": key, "value": value, "instead_key": key, "instead_value": has or ""}
            yield change if has is not None else {}, f"has {key}={has or ''}, not {value}"
    for taint in pool.taints:
        if taint.effect != "PreferNoSchedule" and not tolerates(part.tolerations, taint):
            toleration = {"key": taint.key or "", "value": taint.value or "", "effect": taint.effect or ""}
            yield {"kind": "AddToleration", **toleration}, f"has the taint {taint.key}, which its pods do not tolerate"
    for name, amount in part.requests.items():
        if name not in pool.offers:
            near = nearest(name, pool.offers)
            text = f"has no {name}{f' (did you mean {near}?)' if near else ''}"
            yield {"kind": "UseResource", "name": name, "instead": near} if near else {}, text
        elif amount > (least := pool.offers[name]):
            amounts = readable({name: amount}), readable({name: least})
            less: dict[str, Any] = {"kind": "RequestAtMost", "amounts": {name: least}}
            has = f"has {name} {amounts[1][name]} a machine, and a pod asks for {amounts[0][name]}"
            yield less if least >= _LEAST_PART * amount else {}, has


def _with_maximum(made: Fix | None, way: _Way, namespace: str) -> Fix:
    """The fix, with a larger maximum of the group where that is needed as well."""
    if not way.most:
        assert made is not None
        return made
    name = _short(way.pool.name)
    change: dict[str, Any] = {"kind": "RaiseMaximum", "group": name, "to": way.most}
    text = f"let node group {name} have {way.most} machines"
    raised = patch(MACHINE_DEPLOYMENTS, name, {"metadata": {"annotations": {MAXIMUM: str(way.most)}}}, namespace)
    if made is None:
        return Fix(text, False, {**change, "tried": False}, (raised,))
    both = {"kind": "Together", "changes": [made.change, change], "tried": False}
    return Fix(f"{made.text} and {text}", False, both, (raised, *made.operations))


async def _there(client: HttpClient, nodes: Sequence[Any]) -> list[Held]:
    """What is free on nodes; none where nobody may see the pods on them."""
    from unisono.controllers.node_scaling.shrink import held_by

    try:
        return held_by(nodes, (await client.list(PODS)).items, {}, {}, ())
    except ApiError:
        return []


def _tolerating(taint: Taint) -> Toleration:
    return Toleration(key=taint.key, operator="Exists", effect=taint.effect)


def _short(key: str) -> str:
    return key.rpartition("/")[2]


def _named(names: Sequence[str]) -> str:
    return f"node {plural(len(names), 'group')} {' and '.join(names)}"
