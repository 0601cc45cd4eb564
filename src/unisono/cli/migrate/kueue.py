"""Kueue: ClusterQueues, Cohorts, ResourceFlavors, LocalQueues, Topologies, WorkloadPriorityClasses and jobs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from unisono.api.annotations import KUEUE_QUEUES, QUEUE_NAMESPACES, SERVE
from unisono.api.base import LabelSelector
from unisono.api.keys import HOSTNAME, NAMESPACE_NAME, NODE_GROUP, NODE_GROUP_LIMITS
from unisono.api.kinds import CONFIG_MAPS, NAMESPACES
from unisono.api.selecting import selects
from unisono.cli.migrate import kueue_jobs
from unisono.cli.migrate.kueue_quotas import Quotas, held
from unisono.cli.migrate.settings import KueueSettings, configurations
from unisono.cli.migrate.written import Json, Written, amount, meta_of, name_of, spec_of, texts
from unisono.jobkinds.kueue import KUEUE

_PREFIX = "kueue.x-k8s.io/"
_PRIORITIES = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
_READ = (
    "resourceGroups",
    "cohort",
    "cohortName",
    "queueingStrategy",
    "namespaceSelector",
    "preemption",
    "fairSharing",
    "stopPolicy",
)
_WHY = {
    "flavorFungibility": "a pod goes to the first flavor that has room, though its queue borrows for it",
    "admissionChecks": "jobs are admitted by their queue alone",
    "admissionChecksStrategy": "jobs are admitted by their queue alone",
    "admissionScope": "fair shares are those of queues, and of users by the plug-in user-limits",
    "fairSharing": "queues borrow in turn, by how much of what they deserve they hold",
    "concurrentAdmissionPolicy": "each pod goes to the first node group that has room",
}
_HYPERNODES = "volcano-controller-configmap"
_TAKEN = frozenset((NAMESPACE_NAME,))
Named = Mapping[str, Mapping[str, Any]]


def convert(objects: Iterable[Json], *, in_place: bool = False) -> Written:
    """Queues for ClusterQueues and Cohorts; jobs go to the queue behind their LocalQueue.

    Args:
        objects: a dump.
        in_place: jobs stay as they are, and their namespaces serve them.
    """
    done, by_kind, others = Written(), defaultdict(list), []
    raw_settings, objects = configurations(objects, "config.kueue.x-k8s.io")
    settings = KueueSettings(done, raw_settings)
    for each in objects:
        if str(each.get("apiVersion", "")).startswith(_PREFIX):
            by_kind[each.get("kind", "")].append(each)
        else:
            others.append(each)
    flavors = {name_of(each): spec_of(each) for each in by_kind.pop("ResourceFlavor", [])}
    cohorts, queues = by_kind.pop("Cohort", []), by_kind.pop("ClusterQueue", [])
    quotas = Quotas(
        {name_of(each): spec_of(each) for each in queues}, {name_of(each): spec_of(each) for each in cohorts}
    )
    asked = {name for each in others for name in kueue_jobs.requested(each)}
    _queues(done, quotas, flavors, asked, settings)
    spaces = {
        name_of(each): meta_of(each).get("labels") or {} for each in others if each.get("kind") == NAMESPACES.kind
    }
    places = _local_queues(done, by_kind.pop("LocalQueue", []), quotas.queues, spaces, by_default=not in_place)
    for each in by_kind.pop("WorkloadPriorityClass", []):
        value = int(each.get("value") or 0)
        done.others.append({**_PRIORITIES, "metadata": {"name": name_of(each)}, "value": value})
        done.changes.append(f"WorkloadPriorityClass {name_of(each)} is a PriorityClass: it holds for pods, too")
    levels = _topologies(done, by_kind.pop("Topology", []))
    for kind, left in by_kind.items():
        done.lost += [f"{kind} {name_of(each)}: nothing like it here" for each in left]
    tolerated = {
        name: [each for one in quotas.flavors(name) for each in (flavors.get(one) or {}).get("tolerations") or ()]
        for name in quotas.queues
    }
    if in_place:
        _serve(done, places)
        done.others += others
    else:
        done.others += kueue_jobs.converted(done, others, places, levels, tolerated)
    _actions(done, quotas.queues)
    return done


def _serve(done: Written, places: Mapping[tuple[str, str], str]) -> None:
    """Namespaces with LocalQueues let jobs with Kueue's labels run unchanged."""
    for namespace in dict.fromkeys(space for space, _ in places):
        named = {local: queue for (space, local), queue in places.items() if space == namespace}
        text = ", ".join(f"{local}={queue}" for local, queue in named.items())
        done.annotate(namespace, {SERVE: KUEUE, KUEUE_QUEUES: text})


# ---- queues


def _queues(done: Written, quotas: Quotas, flavors: Named, asked: set[str], settings: KueueSettings) -> None:
    grouped = any(_groups(spec, flavors) for spec in quotas.queues.values())
    # Operators give their pods containers that request cores and memory, which Kueue does not count.
    covered = asked.union(*(quotas.covered(name) for name in quotas.queues)) - {"cpu", "memory", "pods"}
    reclaimed = {quotas.parent(name) for name, spec in quotas.queues.items() if _policy(spec, "reclaimWithinCohort")}
    for name, spec in quotas.queues.items():
        _queue(done, name, quotas, flavors)
        queue, parent = done.queues[name]["spec"], quotas.parent(name)
        queue["reclaimable"] = parent in reclaimed
        missing = sorted(filter(settings.limits, covered - quotas.covered(name)))
        if missing and not held(spec):
            queue["capability"] = queue.get("capability", {}) | dict.fromkeys(missing, "0")
            done.changes.append(f"ClusterQueue {name} has no quota of {', '.join(missing)}: its jobs may hold none")
        if left := sorted({"cpu", "memory"} & asked - quotas.covered(name)):
            done.lost.append(f"ClusterQueue {name} has no quota of {', '.join(left)}: jobs that request it are let in")
        if grouped and not _groups(spec, flavors):
            done.lost.append(
                f"ClusterQueue {name}: its jobs run on no node with the label {NODE_GROUP}, as its flavors name none"
            )
    for name in quotas.cohorts:
        done.queue(name, parent=quotas.parent(name))
    for name, spec in quotas.cohorts.items():
        deserved, kept, most = quotas.of_cohort(name)
        queue = done.queues[name]["spec"]
        queue |= {"deserved": texts(deserved)} if deserved else {}
        queue |= {"guarantee": {"resource": texts(kept)}} if kept else {}
        queue |= {"capability": texts(most)} if most else {}
        done.unread(f"Cohort {name}", spec, ("resourceGroups", "parentName", "parent"), _WHY)
    for queue in done.queues.values():
        settings.rename(queue)


def _queue(done: Written, name: str, quotas: Quotas, flavors: Named) -> None:
    spec = quotas.queues[name]
    deserved, kept, most = quotas.of_queue(name)
    weight = (spec.get("fairSharing") or {}).get("weight")
    groups = _groups(spec, flavors)
    affinity = None
    if groups:
        node_groups = list(dict.fromkeys(groups.values()))
        affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": node_groups}}
        if len(node_groups) > 1:
            affinity["nodeGroupAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = node_groups
    done.queue(
        name,
        parent=quotas.parent(name),
        weight=max(1, round(amount(weight))) if weight is not None else None,
        deserved=texts(deserved),
        guarantee={"resource": texts(kept)} if kept else None,
        capability=texts(most),
        dequeueStrategy="fifo" if spec.get("queueingStrategy") == "StrictFIFO" else "traverse",
        affinity=affinity,
    )
    if held(spec):
        done.lost.append(
            f"ClusterQueue {name}.stopPolicy: nothing starts in it, as it may hold nothing;"
            f" pods that run stay; its quota (no queue may borrow it) is {json.dumps(texts(quotas.nominal(name)))}"
        )
    _flavors(done, name, quotas, flavors, groups)
    _preemption(done, f"ClusterQueue {name}", spec.get("preemption") or {})
    if weight is not None:
        done.lost.append(f"ClusterQueue {name}.fairSharing: {_WHY['fairSharing']}")
    done.unread(f"ClusterQueue {name}", spec, _READ, _WHY)


def _flavors(done: Written, name: str, quotas: Quotas, flavors: Named, groups: Mapping[str, str]) -> None:
    """Node groups for flavors that name nodes, and what the queue may hold of each where it has several."""
    named = quotas.flavors(name)
    if len(set(groups.values())) > 1:
        limits: dict[str, dict[str, Fraction]] = {}
        for flavor, group in groups.items():
            for resource, most in quotas.of_flavor(name, flavor).items():
                of_group = limits.setdefault(group, {})
                of_group[resource] = of_group.get(resource, Fraction(0)) + most
        done.note(name, NODE_GROUP_LIMITS, json.dumps({group: texts(most) for group, most in limits.items()}))
        done.changes.append(
            f"ClusterQueue {name}: pods of one job may go to several of the flavors {', '.join(groups)}"
            " (argument enablePreferredOrder of plug-in nodegroup takes them in this order)"
        )
        if quotas.parent(name):
            done.lost.append(f"ClusterQueue {name}: the cohort's use of one flavor is limited by its nodes")
    elif len(named) > 1:
        done.lost.append(f"ClusterQueue {name}: quotas of flavors {', '.join(named)} became one sum")
    for flavor, group in groups.items():
        labels = ",".join(f"{key}={value}" for key, value in flavors[flavor]["nodeLabels"].items())
        message = f"ResourceFlavor {flavor}: label its nodes: kubectl label nodes -l {labels} {NODE_GROUP}={group}"
        if message not in done.changes:
            done.changes.append(message)
    for flavor in named:
        spec = flavors.get(flavor) or {}
        for field, why in (
            ("tolerations", "written on the jobs of the dump; write them on the pods of others"),
            ("nodeTaints", "taint the nodes"),
        ):
            message = f"ResourceFlavor {flavor}.{field}: {why}"
            if spec.get(field) and message not in done.lost:
                done.lost.append(message)


def _groups(spec: Mapping[str, Any], flavors: Named) -> dict[str, str]:
    """Node groups by flavor: of the first resource group whose flavors all name nodes; one for each set of labels."""
    for group in spec.get("resourceGroups") or ():
        names = [str(each.get("name")) for each in group.get("flavors") or ()]
        if names and all((flavors.get(name) or {}).get("nodeLabels") for name in names):
            first: dict[str, str] = {}
            for name, each in flavors.items():
                first.setdefault(json.dumps(each.get("nodeLabels"), sort_keys=True), name)
            return {name: first[json.dumps(flavors[name]["nodeLabels"], sort_keys=True)] for name in names}
    return {}


def _policy(spec: Mapping[str, Any], name: str) -> str:
    """A policy of preemption; empty for Never."""
    policy = str((spec.get("preemption") or {}).get(name) or "")
    return "" if policy == "Never" else policy


def _preemption(done: Written, what: str, preemption: Mapping[str, Any]) -> None:
    if (preemption.get("borrowWithinCohort") or {}).get("policy", "Never") != "Never":
        done.lost.append(
            f"{what}.preemption.borrowWithinCohort: a queue that borrows does not evict pods of other queues"
        )
    if preemption.get("reclaimWithinCohort") == "LowerPriority":
        done.lost.append(
            f"{what}.preemption.reclaimWithinCohort: what a queue deserves it takes back from any priority"
        )
    if preemption.get("withinClusterQueue") == "LowerOrNewerEqualPriority":
        done.lost.append(f"{what}.preemption.withinClusterQueue: nobody is evicted for a job of equal priority")


def _actions(done: Written, queues: Named) -> None:
    """Which actions evict follows from all queues together."""
    within = [name for name, spec in queues.items() if _policy(spec, "withinClusterQueue")]
    across = [name for name, spec in queues.items() if _policy(spec, "reclaimWithinCohort")]
    actions = ["enqueue", "allocate", *(["preempt"] if within else []), *(["reclaim"] if across else []), "backfill"]
    if queues:
        done.changes.append(
            f'the scheduler\'s configuration: actions: "{", ".join(actions)}", plug-ins as in docs/migrating.md'
        )
    rest = [name for name in queues if name not in within] if within else []
    done.lost += [
        f"ClusterQueue {name}.preemption.withinClusterQueue: action preempt holds for all queues" for name in rest
    ]
    rest = [name for name, spec in queues.items() if name not in across and across and _cohort_of(spec)]
    done.lost += [
        f"ClusterQueue {name}.preemption.reclaimWithinCohort: action reclaim holds for all queues" for name in rest
    ]


def _cohort_of(spec: Mapping[str, Any]) -> str:
    return str(spec.get("cohortName") or spec.get("cohort") or "")


# ---- namespaces


def _local_queues(
    done: Written, found: Iterable[Json], queues: Named, spaces: Mapping[str, Mapping[str, str]], *, by_default: bool
) -> dict[tuple[str, str], str]:
    """Queues by namespace and name of a LocalQueue."""
    places: dict[tuple[str, str], str] = {}
    users: dict[str, set[str]] = {name: set() for name in queues}
    names = defaultdict(set)
    for each in found:
        namespace = str(meta_of(each).get("namespace") or "default")
        queue, title = str(spec_of(each).get("clusterQueue") or ""), f"LocalQueue {namespace}/{name_of(each)}"
        places[namespace, name_of(each)] = queue
        if queue not in queues:
            done.lost.append(f"{title}: its ClusterQueue {queue} is not in the dump")
            continue
        done.unread(title, spec_of(each), ("clusterQueue", "stopPolicy"), _WHY)
        if held(spec_of(each)):
            done.lost.append(f"{title}.stopPolicy: jobs of the namespace are refused by queue {queue}, and do not wait")
        elif _may_use(done, queue, queues[queue], namespace, spaces):
            users[queue].add(namespace)
            names[namespace].add(queue)
    for queue, namespaces in users.items():
        # None named means nobody, and no annotation everybody.
        done.note(queue, QUEUE_NAMESPACES, ", ".join(sorted(namespaces)))
    for namespace, of_it in names.items():
        if by_default and len(of_it) == 1:
            done.use_in(namespace, min(of_it))
    return places


def _may_use(
    done: Written, name: str, spec: Mapping[str, Any], namespace: str, spaces: Mapping[str, Mapping[str, str]]
) -> bool:
    """Whether a namespaceSelector lets a namespace in; one that is absent lets no namespace in."""
    given = spec.get("namespaceSelector")
    if given is None:
        done.lost.append(f"ClusterQueue {name} has no namespaceSelector: it is for no namespace, as in Kueue")
        return False
    selector = msgspec.convert(given, LabelSelector, strict=False)
    keys = {*(selector.match_labels or ()), *(each.key for each in selector.match_expressions or ())}
    if namespace not in spaces and keys - _TAKEN:
        done.changes.append(
            f"ClusterQueue {name}.namespaceSelector: Namespace {namespace}, not in the dump, may use it"
        )
        return True
    return selects(selector, {**spaces.get(namespace, {}), NAMESPACE_NAME: namespace})


def _topologies(done: Written, found: list[Json]) -> dict[str, int]:
    """The HyperNodes that the controllers make of labels; the tier of each label."""
    types = {
        name_of(each): [{"nodeLabel": str(level.get("nodeLabel"))} for level in spec_of(each).get("levels") or ()]
        for each in found
    }
    tiers: dict[str, int] = {}
    for levels in types.values():
        labels = [each["nodeLabel"] for each in levels if each["nodeLabel"] != HOSTNAME]
        tiers |= {label: tier for tier, label in enumerate(reversed(labels), start=1)}
    if types:
        config = {
            "networkTopologyDiscovery": [
                {"source": "label", "enabled": True, "config": {"networkTopologyTypes": types}}
            ]
        }
        where = "volcano-system"
        done.others.append({"apiVersion": "v1", "kind": NAMESPACES.kind, "metadata": {"name": where}})
        done.others.append(
            {
                "apiVersion": "v1",
                "kind": CONFIG_MAPS.kind,
                "metadata": {"name": _HYPERNODES, "namespace": where},
                "data": {"volcano-controller.conf": json.dumps(config)},
            }
        )
        done.changes += [
            f"Topology {name}: its HyperNodes are made from labels by ConfigMap {where}/{_HYPERNODES}" for name in types
        ]
    return tiers
