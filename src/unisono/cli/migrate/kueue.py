"""Kueue: ClusterQueues, Cohorts, ResourceFlavors, LocalQueues, WorkloadPriorityClasses and labelled jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from unisono.api.keys import POD_QUEUE
from unisono.cli.migrate.written import Amounts, Json, Written, amount, meta_of, name_of, spec_of, texts

_DOMAIN = "kueue.x-k8s.io"
_PREFIX = f"{_DOMAIN}/"
_QUEUE = f"{_PREFIX}queue-name"
_PRIORITY = f"{_PREFIX}priority-class"
_PRIORITIES = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
_READ = ("resourceGroups", "cohort", "cohortName", "queueingStrategy", "namespaceSelector", "preemption", "fairSharing")
_WHY = {
    "admissionChecks": "jobs are admitted by their queue alone",
    "admissionChecksStrategy": "jobs are admitted by their queue alone",
    "flavorFungibility": "nodes are chosen for each pod, in the order of their scores",
    "stopPolicy": "close the queue by: unisono queue operate -a close",
    "admissionScope": "fair shares are those of queues, and of users by the plug-in user-limits",
}


def convert(objects: Iterable[Json]) -> Written:
    """Queues for ClusterQueues and Cohorts; jobs go to the queue behind their LocalQueue."""
    done, by_kind, jobs = Written(), defaultdict(list), []
    for each in objects:
        if str(each.get("apiVersion", "")).startswith(_PREFIX):
            by_kind[each.get("kind", "")].append(each)
        else:
            jobs.append(each)
    flavors = {name_of(each): spec_of(each) for each in by_kind.pop("ResourceFlavor", [])}
    cohorts, queues = by_kind.pop("Cohort", []), by_kind.pop("ClusterQueue", [])
    reclaimed = {_cohort(each) for each in queues if _reclaims(each)}
    for each in queues:
        _queue(done, each, reclaimed, flavors)
    own: dict[str, Mapping[str, Any]] = {name: {} for name in {_cohort(each) for each in queues} - {""}} | {
        name_of(each): spec_of(each) for each in cohorts
    }
    for name, spec in own.items():
        done.queue(name, parent=spec.get("parentName"))
    for name, spec in own.items():
        _cohort_queue(done, name, spec, own)
    places = _local_queues(done, by_kind.pop("LocalQueue", []))
    for each in by_kind.pop("WorkloadPriorityClass", []):
        value = int(each.get("value") or 0)
        done.others.append({**_PRIORITIES, "metadata": {"name": name_of(each)}, "value": value})
        done.changes.append(f"WorkloadPriorityClass {name_of(each)} is a PriorityClass: it holds for pods, too")
    for each in by_kind.pop("Topology", []):
        levels = ", ".join(str(level.get("nodeLabel")) for level in spec_of(each).get("levels") or ())
        done.lost.append(f"Topology {name_of(each)}: make HyperNodes of {levels} (docs/network-topology.md)")
    for kind, left in by_kind.items():
        done.lost += [f"{kind} {name_of(each)}: nothing like it here" for each in left]
    done.others += [_job(done, each, places) for each in jobs]
    return done


def _cohort(queue: Mapping[str, Any]) -> str:
    spec = spec_of(queue)
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _reclaims(queue: Mapping[str, Any]) -> bool:
    return bool((spec_of(queue).get("preemption") or {}).get("reclaimWithinCohort", "Never") != "Never")


def _quotas(spec: Mapping[str, Any], *, alone: bool) -> tuple[Amounts, Amounts, Amounts]:
    """What a queue deserves, what of it is never lent, and its limits: sums over flavors.

    Args:
        spec: of a ClusterQueue or a Cohort.
        alone: nobody is there to borrow from.

    """
    deserved, kept, most, unbound = Amounts(), Amounts(), Amounts(), set()
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for each in flavor.get("resources") or ():
                name, nominal = str(each.get("name")), amount(each.get("nominalQuota"))
                deserved[name] = deserved.get(name, amount(0)) + nominal
                if each.get("lendingLimit") is not None:
                    kept[name] = kept.get(name, amount(0)) + nominal - amount(each["lendingLimit"])
                if each.get("borrowingLimit") is None and not alone:
                    unbound.add(name)
                most[name] = most.get(name, amount(0)) + nominal + amount(each.get("borrowingLimit") or 0)
    kept = {name: value for name, value in kept.items() if value > 0}
    return deserved, kept, {name: value for name, value in most.items() if name not in unbound}


def _cohort_queue(done: Written, name: str, spec: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> None:
    """A cohort deserves its own quotas and those of all queues in it, which is the most that they use together."""
    queue, alone = done.queues[name]["spec"], not spec.get("parentName")
    total, kept = _total(done, name, own, frozenset())
    queue["deserved"] = texts(total)
    if kept:
        queue["guarantee"] = {"resource": texts(kept)}
    _, _, most = _quotas(spec, alone=alone)
    borrows = {each: value - _quotas(spec, alone=alone)[0][each] for each, value in most.items()}
    limits = {each: value + borrows.get(each, amount(0)) for each, value in total.items() if alone or each in borrows}
    if limits:
        queue["capability"] = texts(limits)


def _total(
    done: Written, name: str, own: Mapping[str, Mapping[str, Any]], above: frozenset[str]
) -> tuple[Amounts, Amounts]:
    """What a queue and all below it deserve, and what of it is never lent."""
    if name in own:
        deserved, kept, _ = _quotas(own[name], alone=True)
        kept = {}
    else:
        spec = done.queues[name]["spec"]
        deserved = {key: amount(value) for key, value in (spec.get("deserved") or {}).items()}
        held = (spec.get("guarantee") or {}).get("resource") or {}
        kept = {key: amount(value) for key, value in held.items()}
    below = [each for each, queue in done.queues.items() if queue["spec"].get("parent") == name and each not in above]
    for each in below:
        for mine, theirs in zip((deserved, kept), _total(done, each, own, above | {name}), strict=True):
            for key, value in theirs.items():
                mine[key] = mine.get(key, amount(0)) + value
    return deserved, kept


def _queue(done: Written, queue: Json, reclaimed: set[str], flavors: Mapping[str, Mapping[str, Any]]) -> None:
    name, spec, cohort = name_of(queue), spec_of(queue), _cohort(queue)
    deserved, kept, most = _quotas(spec, alone=not cohort)
    weight = (spec.get("fairSharing") or {}).get("weight")
    named = [
        str(flavor.get("name")) for group in spec.get("resourceGroups") or () for flavor in group.get("flavors") or ()
    ]
    named = list(dict.fromkeys(named))
    bound = named and all((flavors.get(one) or {}).get("nodeLabels") for one in named)
    groups = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": named}} if bound else None
    done.queue(
        name,
        parent=cohort,
        weight=max(1, round(amount(weight))) if weight is not None else None,
        deserved=texts(deserved),
        guarantee={"resource": texts(kept)} if kept else None,
        capability=texts(most),
        reclaimable=cohort in reclaimed,
        dequeueStrategy="fifo" if spec.get("queueingStrategy") == "StrictFIFO" else "traverse",
        affinity=groups,
    )
    if len(named) > 1:
        done.lost.append(f"ClusterQueue {name}: quotas of flavors {', '.join(named)} became one sum")
    for one in named if bound else ():
        labels = ",".join(f"{key}={value}" for key, value in flavors[one]["nodeLabels"].items())
        told = f"ResourceFlavor {one}: label its nodes: kubectl label nodes -l {labels} volcano.sh/nodegroup-name={one}"
        if told not in done.changes:
            done.changes.append(told)
    for one in named:
        if (flavors.get(one) or {}).get("tolerations"):
            done.lost.append(f"ResourceFlavor {one}.tolerations: write them on the pods")
    preemption = spec.get("preemption") or {}
    if preemption.get("borrowWithinCohort", {}).get("policy", "Never") != "Never":
        done.lost.append(f"ClusterQueue {name}.preemption.borrowWithinCohort: who borrows evicts nobody")
    if preemption.get("withinClusterQueue", "Never") != "Never":
        done.changes.append(f"ClusterQueue {name}: jobs of higher priority evict others of the queue by action preempt")
    if (spec.get("namespaceSelector") or {}) != {}:
        done.changes.append(f"ClusterQueue {name}.namespaceSelector: the namespaces of its LocalQueues may use it")
    done.unread(f"ClusterQueue {name}", spec, _READ, _WHY)


def _local_queues(done: Written, found: Iterable[Json]) -> dict[tuple[str, str], str]:
    """Queues by namespace and name of a LocalQueue."""
    places: dict[tuple[str, str], str] = {}
    spaces, names = defaultdict(set), defaultdict(set)
    for each in found:
        namespace, queue = (
            str(meta_of(each).get("namespace") or "default"),
            str(spec_of(each).get("clusterQueue") or ""),
        )
        places[namespace, name_of(each)] = queue
        spaces[queue].add(namespace)
        names[namespace].add(queue)
    for queue, namespaces in spaces.items():
        if queue in done.queues:
            done.reserve(queue, namespaces)
        else:
            done.lost.append(f"LocalQueues of ClusterQueue {queue}, which is not in the dump")
    for namespace, queues in names.items():
        if len(queues) == 1:
            done.use_in(namespace, min(queues))
    return places


def _job(done: Written, job: Json, places: Mapping[tuple[str, str], str]) -> Json:
    meta = dict(meta_of(job))
    labels = dict(meta.get("labels") or {})
    local = labels.pop(_QUEUE, None)
    if local is None:
        return job
    what = f"{job.get('kind')} {name_of(job)}"
    queue = places.get((str(meta.get("namespace") or "default"), str(local)))
    if queue is None:
        done.lost.append(f"{what}: its LocalQueue {local} is not in the dump")
        return job
    spec = dict(spec_of(job))
    if priority := labels.pop(_PRIORITY, None):
        done.lost.append(f"{what}: give its pods priorityClassName: {priority}")
    for key in [key for key in (*labels, *(meta.get("annotations") or {})) if _DOMAIN in key.partition("/")[0]]:
        done.lost.append(f"{what}: {key} (docs/words-of-others.md)")
    if spec.get("suspend"):
        spec["suspend"] = False
        done.changes.append(f"{what} is not suspended: its pods wait for the queue")
    meta["labels"], meta["annotations"] = labels, {**(meta.get("annotations") or {}), POD_QUEUE: queue}
    return {**job, "metadata": meta, "spec": spec}
