"""Configurations of other schedulers: whose a file is, and a KubeSchedulerConfiguration as one of ours (pure).

Kubernetes' scheduler, scheduler-plugins and Koordinator's are configured by profiles of plug-ins. What such a plug-in
does stands here in one of ours, whose weight or argument it becomes, or is told as lost. Sources are Kubernetes 1.36,
scheduler-plugins 0.35 and Koordinator 1.8 (August 2026).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from unisono.jobkinds.others_configurations import GROUPS

KUBE_SCHEDULER: Final = "KubeSchedulerConfiguration"
NAMES: Final = ("apiVersion", "kind")

_YUNIKORN: Final = (
    "this is queues.yaml of YuniKorn: write queues and settings by 'unisono migrate from yunikorn -f FILE'"
)


def whose(root: Mapping[str, Any]) -> str:
    """A sentence on a file that configures another scheduler; empty where it may be one of ours.

    Args:
        root: keys of the whole file, with the values of `NAMES`.
    """
    if "partitions" in root and "tiers" not in root:
        return _YUNIKORN
    group = str(root.get("apiVersion", "")).partition("/")[0]
    if not group or "kind" not in root:
        return ""
    what = f"this is a {root['kind']}"
    if group in GROUPS:
        project, instead = GROUPS[group]
        return f"{what} of {project}: {instead}"
    return f"{what} ({root['apiVersion']}), and no configuration of a scheduler: state actions and tiers"


@dataclass(slots=True)
class Profile:
    """What a profile became.

    Attributes:
        changes: what was written otherwise.
        lost: what has nothing like it here.
        plugins: arguments by plug-in, in their order.
        metrics: where measured load comes from.
    """

    changes: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    plugins: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {"priority": {}, "gang": {}, "conformance": {}, "predicates": {}, "nodeorder": {}}
    )


_WEIGHTS: Final = {
    "NodeAffinity": ("nodeorder", "nodeaffinity.weight", 2),
    "TaintToleration": ("nodeorder", "tainttoleration.weight", 3),
    "InterPodAffinity": ("nodeorder", "podaffinity.weight", 2),
    "PodTopologySpread": ("nodeorder", "podtopologyspread.weight", 2),
    "ImageLocality": ("nodeorder", "imagelocality.weight", 1),
    "NodeResourcesBalancedAllocation": ("nodeorder", "balancedresource.weight", 1),
    "BalancedAllocation": ("nodeorder", "balancedresource.weight", 1),
}
"""Scores, with the plug-in and argument that weigh them here, and their weight in Kubernetes where none is said."""

_SAME_NAMES: Final = (
    "DefaultBinder DefaultPreemption DynamicResources NodeName NodePorts NodeResourcesFit NodeUnschedulable "
    "NodeVolumeLimits PrioritySort SchedulingGates VolumeBinding VolumeRestrictions VolumeZone"
)
_SAME: Final = frozenset(_SAME_NAMES.split())
"""What the plug-ins that stand here in any case do as well."""

_FIT: Final = "NodeResourcesFit"
_FIT_WEIGHT: Final = 1
"""Of its score, whose weight is told by the points that score."""
_HERE: Final[Mapping[str, tuple[str, str]]] = {
    "Coscheduling": ("gang", "gangs are PodGroups with minMember, or jobs"),
    "CapacityScheduling": ("capacity", "quotas are Queues, by deserved and capability"),
    "ElasticQuota": ("capacity", "quotas are Queues, by deserved and capability"),
    "NodeResourceTopologyMatch": ("numa-aware", "policies are told by volcano.sh/numa-topology-policy"),
    "NodeNUMAResource": ("numa-aware", "policies are told by volcano.sh/numa-topology-policy"),
    "DeviceShare": ("deviceshare", "parts of cards are volcano.sh/vgpu-memory and volcano.sh/vgpu-cores"),
    "TargetLoadPacking": ("usage", "nodes are scored by measured load; thresholds bound it"),
    "LoadVariationRiskBalancing": ("usage", "nodes are scored by measured load, and not by its variation"),
    "LowRiskOverCommitment": ("usage", "nodes are scored by measured load, and not by the risk of limits"),
    "LoadAwareScheduling": ("usage", "nodes are scored by measured load; thresholds bound it"),
    "NetworkOverhead": ("network-topology-aware", "jobs stand near each other by HyperNodes"),
    "NetworkTopology": ("network-topology-aware", "jobs stand near each other by HyperNodes"),
    "PreemptionToleration": ("eviction-guard", "pods run at least for unisono.io/min-run-time"),
}
"""Plug-ins that another one stands for here, and what is different."""

_LOST: Final[Mapping[str, str]] = {
    "TopologicalSort": "write dependsOn of a Job's tasks, or a JobFlow",
    "QOSSort": "jobs are ordered by their priority and shares",
    "PodState": "pods that terminate count until they are gone",
    "NodeResourcesAllocatable": "write weights of resource-strategy-fit",
    "NodeMetadata": "write preferred node affinity, or plug-in cost",
    "CrossNodePreemption": "actions preempt and gangpreempt evict on several nodes for a gang",
    "Reservation": "write a Reservation (docs/calendar.md)",
}
_ALIKE_NAMES: Final = (
    "parallelism percentageOfNodesToScore podInitialBackoffSeconds podMaxBackoffSeconds leaderElection "
    "clientConnection enableProfiling enableContentionProfiling healthzBindAddress metricsBindAddress "
    "delayCacheUntilActive"
)
_ALIKE: Final = frozenset(_ALIKE_NAMES.split())
_FIRST_TIER: Final = ("priority", "gang", "conformance")


def converted(root: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    """The configuration that means the same, what was written otherwise, and what was left out.

    Args:
        root: a KubeSchedulerConfiguration; of several profiles the first counts.
    """
    done = Profile()
    profiles = [each for each in _listed(root.get("profiles")) if isinstance(each, Mapping)]
    profile: Mapping[str, Any] = profiles[0] if profiles else {}
    points: Mapping[str, Any] = profile.get("plugins") or {}
    given = {str(one.get("name")): one.get("args") or {} for one in _listed(profile.get("pluginConfig"))}
    for plugin, key, usual in _WEIGHTS.values():
        done.plugins[plugin][key] = usual
    done.plugins["nodeorder"]["leastrequested.weight"] = _FIT_WEIGHT
    if any(name == "*" and not on for name, _, on in _enabled({"score": points.get("score")})):
        done.plugins["nodeorder"] = dict.fromkeys(done.plugins["nodeorder"], 0)
        done.changes.append("score * is disabled: scores that no enabled plug-in gives weigh nothing")
    for name, weight, on in _enabled(points):
        _plugin(done, name, weight, on=on)
    for name, weight, on in _enabled({point: points.get(point) for point in ("score", "multiPoint")}):
        if name == _FIT:
            done.plugins["nodeorder"]["leastrequested.weight"] = (weight or _FIT_WEIGHT) if on else 0
    for name, arguments in given.items():
        _arguments(done, name, arguments)
    for other in profiles[1:]:
        done.lost.append(f"profile {other.get('schedulerName')}: one configuration holds for all pods")
    if profile.get("schedulerName"):
        done.changes.append(
            f"schedulerName {profile['schedulerName']}: leave it out of jobs, and write volcano on pods"
        )
    for key, value in root.items():
        if key in ("apiVersion", "kind", "profiles") or value in (None, "", {}, []):
            continue
        if key == "extenders":
            done.lost.append("extenders: the protocol is another one (plug-in extender)")
        elif key in _ALIKE:
            done.changes.append(f"{key} is left out: it is of that scheduler's own process")
        else:
            done.lost.append(key)
    after = _enabled({"postFilter": points.get("postFilter")})
    everywhere = _enabled({"multiPoint": points.get("multiPoint")})
    preempts = all(on or name not in ("*", "DefaultPreemption") for name, _, on in (*after, *everywhere))
    first = [_written(name, done.plugins[name]) for name in _FIRST_TIER]
    rest = [_written(name, found) for name, found in done.plugins.items() if name not in _FIRST_TIER]
    actions = "enqueue, allocate, preempt, backfill" if preempts else "enqueue, allocate, backfill"
    written: dict[str, Any] = {"actions": actions, "tiers": [{"plugins": first}, {"plugins": rest}]}
    return written | ({"metrics": done.metrics} if done.metrics else {}), done.changes, done.lost


def _written(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "arguments": dict(arguments)} if arguments else {"name": name}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _enabled(points: Mapping[str, Any]) -> Iterator[tuple[str, int | None, bool]]:
    """Each plug-in once, with its weight, and whether it is on."""
    seen: set[tuple[str, bool]] = set()
    for point in points.values():
        for on in (False, True):
            for each in _listed(point.get("enabled" if on else "disabled")) if isinstance(point, Mapping) else ():
                name, weight = str(each.get("name")), each.get("weight")
                if (name, on) not in seen:
                    seen.add((name, on))
                    yield name, weight if isinstance(weight, int) else None, on


def _plugin(done: Profile, name: str, weight: int | None, *, on: bool) -> None:
    if name in _WEIGHTS:
        plugin, key, usual = _WEIGHTS[name]
        done.plugins[plugin][key] = (usual if weight is None else weight) if on else 0
        done.changes.append(f"plug-in {name} is {key} of plug-in {plugin}")
    elif name == "*" or name in _SAME:
        if not on and name not in ("*", "DefaultPreemption", "PrioritySort", _FIT):
            done.lost.append(f"plug-in {name} is disabled: what it does is always done here")
    elif not on:
        return
    elif name in _HERE:
        plugin, how = _HERE[name]
        done.plugins.setdefault(plugin, {})
        done.changes.append(f"plug-in {name} is plug-in {plugin}: {how}")
    else:
        done.lost.append(f"plug-in {name}: {_LOST.get(name, 'nothing like it here')}")


def _arguments(done: Profile, name: str, given: Mapping[str, Any]) -> None:
    """Arguments of one plug-in."""
    left = dict(given)
    strategy = left.pop("scoringStrategy", None) if name == "NodeResourcesFit" else None
    if isinstance(strategy, Mapping) and strategy.get("type"):
        kind = str(strategy["type"])
        listed = _listed(strategy.get("resources")) or [{"name": "cpu"}, {"name": "memory"}]
        if kind == "RequestedToCapacityRatio":
            done.lost.append("NodeResourcesFit.scoringStrategy.requestedToCapacityRatio: it counts as MostAllocated")
            kind = "MostAllocated"
        weight = done.plugins["nodeorder"]["leastrequested.weight"]
        done.plugins["nodeorder"]["leastrequested.weight"] = 0
        done.plugins["resource-strategy-fit"] = {
            "resourceStrategyFitWeight": weight,
            "resources": {one.get("name"): {"type": kind, "weight": one.get("weight", 1)} for one in listed},
        }
        done.changes.append(
            f"scoringStrategy {kind} of NodeResourcesFit is plug-in resource-strategy-fit, with its weight {weight}"
        )
    source = left.pop("metricProvider", None) if _HERE.get(name, ("",))[0] == "usage" else None
    if isinstance(source, Mapping) and source.get("type") == "Prometheus" and source.get("address"):
        done.metrics = {"type": "prometheus", "address": source["address"]}
        done.changes.append(f"metricProvider of {name} is metrics")
        source = {key: value for key, value in source.items() if key not in ("type", "address")}
    left |= {"metricProvider": source} if source else {}
    left.pop("apiVersion", None)
    left.pop("kind", None)
    if left:
        done.lost.append(f"the arguments of plug-in {name}: {', '.join(map(str, left))}")
