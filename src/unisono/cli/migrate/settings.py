"""Settings of another scheduler as a whole, such as Kueue's Configuration: what becomes of each field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import yaml

from unisono.api.keys import NODE_GROUP
from unisono.cli.migrate.written import Json, Written, name_of, spec_of
from unisono.engine.config_file.dialects import ACTIONS, PLUGINS, foreign

Said = tuple[Literal["changed", "lost", "process"], str]
"""What becomes of a field: it means the same here, has nothing like it, or is of the scheduler's own process; and what
to write, with ``{}`` for its value."""

_PROCESS: Final[Said] = ("process", "")
_FAIR: Final = "fair-share.halfLife: {} of plug-in fair-share"
_RUN: Final = "eviction-guard.minRunTime: {} of plug-in eviction-guard"
_READY: Final = (
    "gangs start as a whole; for pods that must run in time, write a policy of the Job: "
    "{event: PodPending, action: RestartJob, timeout: {}}"
)

KUEUE: Final[Mapping[str, Said]] = {
    "integrations.frameworks": ("changed", "kinds of jobs need no list (docs/kinds.md)"),
    "integrations.externalFrameworks": ("lost", "{}: say what these kinds are made of (docs/kinds.md)"),
    "integrations.podOptions": ("lost", "pods of all namespaces are placed that have schedulerName volcano"),
    "integrations.labelKeysToCopy": ("lost", "pods have the labels of their templates"),
    "manageJobsWithoutQueueName": (
        "changed",
        "{}: jobs without a queue are always in that of their namespace, or in default",
    ),
    "managedJobsNamespaceSelector": ("lost", "jobs of all namespaces are queued"),
    "waitForPodsReady.timeout": ("changed", _READY),
    "waitForPodsReady.blockAdmission": ("changed", "{}: each gang is admitted by what is free and promised"),
    "waitForPodsReady.recoveryTimeout": ("lost", "pods that are lost are made again: {} bounds nothing"),
    "waitForPodsReady.requeuingStrategy": ("lost", "the policy's maxRetry counts, and a restarted job waits longer"),
    "fairSharing": ("lost", "queues borrow in turn, by how much of what they deserve they hold"),
    "admissionFairSharing.usageHalfLifeTime": ("changed", _FAIR),
    "admissionFairSharing.usageSamplingInterval": ("changed", "use is counted as it happens"),
    "admissionFairSharing.resourceWeights": ("lost", "shares are those of the dominant resource"),
    "resources.excludeResourcePrefixes": ("changed", "no queue limits resources that begin with {}"),
    "resources.quotaCheckStrategy": ("changed", "{}: of resources without a quota queues may hold any amount"),
    "resources.transformations": ("lost", "quotas count what pods request: write them of {}"),
    "resources.deviceClassMappings": ("changed", "{}: quotas are those of deviceclass/CLASS"),
    "multiKueue": ("lost", "see docs/fleet.md"),
    "objectRetentionPolicies": ("lost", "set ttlSecondsAfterFinished of jobs"),
    "featureGates": ("lost", "{} are Kueue's"),
    **dict.fromkeys(
        (
            *("clientConnection", "controller", "health", "internalCertManagement", "leaderElection", "metrics"),
            *("namespace", "pprofBindAddress", "queueVisibility", "tls", "visibility", "webhook"),
        ),
        _PROCESS,
    ),
}
"""Fields of Kueue's Configuration 0.19."""

_STRATEGIES: Final = {"binpack": "plug-in binpack", "spread": "plug-in nodeorder"}
KAI: Final[Mapping[str, Said]] = {
    "partitionLabelValue": (
        "changed",
        f"{{}}: kubectl label nodes -l kai.scheduler/node-pool={{}} {NODE_GROUP}={{}}, and name the group in "
        "spec.affinity of the Queues (plug-in nodegroup)",
    ),
    "queueDepthPerAction": ("changed", "every waiting job is looked at"),
    "minRuntime.preemptMinRuntime": ("changed", _RUN),
    "minRuntime.reclaimMinRuntime": ("changed", _RUN),
    "kValue": ("lost", "past use counts by fair-share.halfLife alone"),
    "usageDBConfig.usageParams.halfLifePeriod": ("changed", _FAIR),
    "usageDBConfig": ("changed", "plug-in fair-share remembers what was used"),
    "args": _PROCESS,
    "global.schedulerName": ("changed", "{}: leave schedulerName out of jobs, and write volcano on pods"),
    "global.nodePoolLabelKey": ("changed", f"{{}}: groups of nodes are told by {NODE_GROUP}"),
}
"""Fields of KAI's SchedulingShard and Config 0.13."""


def tell(done: Written, what: str, found: Mapping[str, Any], table: Mapping[str, Said]) -> None:
    """Say what becomes of each field that is set.

    Args:
        done: gets the sentences.
        what: the object, for them.
        found: its fields.
        table: what becomes of them, by path; the longest path that has a row counts.
    """
    process: list[str] = []
    for path, value in _rows(found, table):
        how, text = table.get(path) or ("lost", "nothing like it here")
        if how == "process":
            process.append(path)
            continue
        said = f"{what}.{path}: {text.replace('{}', _short(value))}"
        kept = done.changes if how == "changed" else done.lost
        if said not in kept:
            kept.append(said)
    if process:
        done.changes.append(f"{what}: left out, as of that scheduler's own process: {', '.join(process)}")


def _rows(found: Mapping[str, Any], table: Mapping[str, Said], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in found.items():
        path = f"{above}{key}"
        if value in (None, "", {}, []):
            continue
        deeper = isinstance(value, Mapping) and any(row.startswith(f"{path}.") for row in table)
        if not deeper:
            yield path, value
            continue
        inner = [*_rows(value, table, f"{path}.")]
        own = [each for each in inner if each[0] in table]
        if path not in table:
            yield from inner
            continue
        yield from own
        if len(own) < len(inner):
            yield path, value


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(map(str, value))
    if isinstance(value, list):
        names = (each.get("name") or each.get("input") or "" if isinstance(each, Mapping) else each for each in value)
        return ", ".join(str(each) for each in names)
    return str(value)


# ---- Kueue


class KueueSettings:
    """What Kueue's Configuration says of quotas.

    Attributes:
        excluded: resources that begin so are in no quota.
        undeclared: resources without a quota are let in.
        classes: device classes by the resource that stands for them.
    """

    def __init__(self, done: Written, found: Iterable[Json]) -> None:
        self.excluded: tuple[str, ...] = ()
        self.undeclared = False
        self.classes: dict[str, str] = {}
        for each in found:
            what = f"Configuration {name_of(each)}".rstrip()
            fields = {key: value for key, value in each.items() if key not in ("apiVersion", "kind", "metadata")}
            fields["waitForPodsReady"] = _in_time(fields.get("waitForPodsReady"))
            tell(done, what, fields, KUEUE)
            resources = each.get("resources") or {}
            self.excluded += tuple(map(str, resources.get("excludeResourcePrefixes") or ()))
            self.undeclared |= resources.get("quotaCheckStrategy") == "IgnoreUndeclared"
            for one in resources.get("deviceClassMappings") or ():
                classes = list(one.get("deviceClassNames") or ())
                if len(classes) == 1 and not one.get("sources"):
                    self.classes[str(one.get("name"))] = f"deviceclass/{classes[0]}"
                else:
                    done.lost.append(
                        f"{what}.resources.deviceClassMappings: {one.get('name')} stands for more than the devices of "
                        "one class: write quotas of each deviceclass/CLASS"
                    )

    def limits(self, resource: str) -> bool:
        """Whether a queue without a quota of a resource may hold none of it."""
        return not self.undeclared and not any(resource.startswith(each) for each in self.excluded)

    def rename(self, queue: Json) -> None:
        """Quotas of resources that stand for device classes."""
        spec = queue["spec"]
        for amounts in (spec.get("deserved"), spec.get("capability"), (spec.get("guarantee") or {}).get("resource")):
            for name, named in self.classes.items():
                if amounts and name in amounts:
                    amounts[named] = amounts.pop(name)


def _in_time(given: Any) -> Json:
    """What Kueue waits for pods to be ready, by its own time where none is said; nothing where it is switched off."""
    if not isinstance(given, Mapping) or given.get("enable") is False:
        return {}
    return {"timeout": "5m", **{key: value for key, value in given.items() if key != "enable"}}


def configurations(objects: Iterable[Json], group: str) -> tuple[list[Json], list[Json]]:
    """Settings among the objects, alone or as a text in a ConfigMap, and the other objects.

    Args:
        objects: a dump.
        group: API group of the settings.
    """
    settings: list[Json] = []
    others: list[Json] = []
    for each in objects:
        texts = (each.get("data") or {}).values() if each.get("kind") == "ConfigMap" else ()
        within = [one for text in texts if group in str(text) and isinstance(one := _read(text), dict)]
        matches = [one for one in (each, *within) if str(one.get("apiVersion", "")).startswith(f"{group}/")]
        settings += matches
        if not matches:
            others.append(each)
    return settings, others


def _read(text: Any) -> Any:
    try:
        return yaml.safe_load(str(text))
    except yaml.YAMLError:
        return None


# ---- KAI


def tell_kai(done: Written, obj: Json) -> None:
    """A SchedulingShard, or the Config of KAI's operator."""
    what, spec = f"{obj.get('kind')} {name_of(obj)}", dict(spec_of(obj))
    for resource, strategy in (spec.pop("placementStrategy", None) or {}).items():
        plugin = _STRATEGIES.get(str(strategy), "plug-in nodeorder")
        done.changes.append(f"{what}.placementStrategy.{resource}: {strategy} is {plugin}")
    for field, names in (("plugins", PLUGINS), ("actions", ACTIONS)):
        for name, given in (spec.pop(field, None) or {}).items():
            entry = foreign(str(name), names)
            says = entry.says.removeprefix("of KAI-Scheduler: ") if entry else "write it in actions and plug-ins"
            off = isinstance(given, Mapping) and given.get("enabled") is False
            done.lost.append(f"{what}.{field}.{name}: {'leave it out' if off else says}")
    table = dict(KAI)
    if obj.get("kind") == "Config":
        within = spec.get("global")
        table |= {key: _PROCESS for key in spec if key != "global"}
        table |= {f"global.{key}": _PROCESS for key in within or () if f"global.{key}" not in KAI}
    tell(done, what, spec, table)
