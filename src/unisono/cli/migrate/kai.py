"""KAI: Queues and PodGroups, and pods and jobs that carry their labels."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from unisono.api.annotations import MIN_RUN_TIME
from unisono.api.keys import NVIDIA_GPU, POD_QUEUE
from unisono.api.kinds import POD_GROUPS
from unisono.cli.migrate.settings import tell_kai
from unisono.cli.migrate.written import Amounts, Json, Written, meta_of, name_of, spec_of, texts

_LABEL = "kai.scheduler/queue"
_SUBGROUP = "kai.scheduler/subgroup-name"
# Units of KAI's numbers: thousandths of processors, and millions of bytes.
_RESOURCES = {
    "cpu": ("cpu", Fraction(1, 1000)),
    "memory": ("memory", Fraction(10**6)),
    "gpu": (NVIDIA_GPU, Fraction(1)),
}


def convert(objects: Iterable[Json]) -> Written:
    """Queues with what they deserve, and PodGroups with their parts."""
    done = Written()
    for each in objects:
        group, kind = str(each.get("apiVersion", "")).partition("/")[0], each.get("kind")
        if group == "scheduling.run.ai" and kind == "Queue":
            _queue(done, each)
        elif group == "scheduling.run.ai" and kind == "PodGroup":
            done.others.append(_pod_group(done, each))
        elif group == "kai.scheduler" and kind in ("SchedulingShard", "Config"):
            tell_kai(done, each)
        elif group in ("kai.scheduler", "scheduling.run.ai"):
            done.lost.append(f"{kind} {name_of(each)}: nothing like it here")
        else:
            done.others.append(_job(done, each))
    return done


def _queue(done: Written, queue: Json) -> None:
    name, spec = name_of(queue), spec_of(queue)
    deserved, most, weights = Amounts(), Amounts(), list[float]()
    for kind, given in (spec.get("resources") or {}).items():
        if kind not in _RESOURCES or not isinstance(given, dict):
            continue
        here, unit = _RESOURCES[kind]
        if (quota := given.get("quota", 0)) >= 0:
            deserved[here] = Fraction(str(quota)) * unit
        else:
            done.changes.append(f"Queue {name}: a quota of {kind} without limit is left out: it deserves what is asked")
        if (limit := given.get("limit", -1)) >= 0:
            most[here] = Fraction(str(limit)) * unit
        weights.append(float(given.get("overQuotaWeight", 1)))
    if len(set(weights)) > 1:
        done.lost.append(f"Queue {name}: weights differ by resource; the greatest counts")
    weight: Any = max(1, round(max(weights))) if weights else None
    priority = spec.get("priority")
    done.queue(
        name,
        parent=spec.get("parentQueue"),
        weight=weight,
        priority=priority if priority is None or priority >= 0 else 0,
        deserved=texts(deserved),
        capability=texts(most),
    )
    times = {key: spec[key] for key in ("preemptMinRuntime", "reclaimMinRuntime") if spec.get(key)}
    if times:
        done.note(name, MIN_RUN_TIME, str(next(iter(times.values()))))
        if len(set(times.values())) > 1:
            done.lost.append(f"Queue {name}.reclaimMinRuntime: one time holds for all evictions")
    handled = ("parentQueue", "resources", "priority", "displayName", *times)
    done.unread(f"Queue {name}", spec, handled, {})


def _pod_group(done: Written, group: Json) -> Json:
    spec, what = spec_of(group), f"PodGroup {name_of(group)}"
    parts = [
        {
            "name": each.get("name"),
            "labelSelector": {"matchLabels": {_SUBGROUP: each.get("name")}},
            "subGroupSize": each.get("minMember") or 1,
            "minSubGroups": 1,
        }
        for each in spec.get("subGroups") or ()
        if each.get("minMember")
    ]
    for each in (spec, *(spec.get("subGroups") or ())):
        if each.get("topologyConstraint"):
            done.lost.append(f"{what}: topologyConstraint (write spec.networkTopology, docs/network-topology.md)")
        if each.get("parent"):
            done.lost.append(f"{what}: parts within part {each['parent']} stand beside each other")
    keys = ("minMember", "queue", "priorityClassName")
    kept = {key: spec[key] for key in keys if spec.get(key) is not None}
    handled = (*keys, "subGroups", "topologyConstraint")
    done.unread(what, spec, handled, {"preemptibility": 'write the annotation volcano.sh/preemptable: "false"'})
    meta = {key: value for key, value in meta_of(group).items() if key in ("name", "namespace", "labels")}
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": meta,
        "spec": {**kept, **({"subGroupPolicy": parts} if parts else {})},
    }


def _job(done: Written, job: Json) -> Json:
    meta = dict(meta_of(job))
    labels = dict(meta.get("labels") or {})
    queue = labels.pop(_LABEL, None)
    if queue is None:
        return job
    done.changes.append(f"{job.get('kind')} {name_of(job)} names its queue in an annotation")
    meta["labels"], meta["annotations"] = labels, {**(meta.get("annotations") or {}), POD_QUEUE: queue}
    changed: Json = _on_ours({**job, "metadata": meta})
    return changed


def _on_ours(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "volcano" if key == "schedulerName" and each == "kai-scheduler" else _on_ours(each)
            for key, each in value.items()
        }
    return [_on_ours(each) for each in value] if isinstance(value, list) else value
