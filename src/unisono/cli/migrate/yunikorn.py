"""YuniKorn: ``queues.yaml``, alone or in its ConfigMap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from unisono.api.annotations import QUEUE_USERS, USER_LIMITS
from unisono.cli.migrate.written import Json, Written, amount, texts

_KEY = "queues.yaml"
_READ = (
    "name", "parent", "queues", "resources", "submitacl", "adminacl", "limits", "properties", "maxapplications"
)  # fmt: skip
_ALL = "*"
_OF_PODS = "pods of all namespaces are placed that have schedulerName volcano"
_OF_USERS = "users are those of the API server"
_SERVICE = {
    "service.placeholderImage": "gangs need no pods that hold room for them",
    "service.disableGangScheduling": "gangs are PodGroups with minMember, and what has none is no gang",
    "service.enableConfigHotRefresh": "a new configuration is always read at once",
    "admissionController.filtering.processNamespaces": _OF_PODS,
    "admissionController.filtering.bypassNamespaces": _OF_PODS,
    "admissionController.filtering.labelNamespaces": "jobs name their queue, or are in that of their namespace",
    "admissionController.accessControl.externalUsers": _OF_USERS,
    "admissionController.accessControl.systemUsers": _OF_USERS,
}


def convert(objects: Iterable[Json]) -> Written:
    """A Queue for each queue below ``root``."""
    done = Written()
    for each in objects:
        text = (each.get("data") or {}).get(_KEY) if each.get("kind") == "ConfigMap" else None
        config = yaml.safe_load(text) if text else each
        partitions = config.get("partitions") if isinstance(config, Mapping) else None
        if partitions is None and not _is_own(each):
            done.others.append(each)
        elif each.get("kind") == "ConfigMap":
            _service(done, each)
        for partition in partitions or ():
            _partition(done, partition)
    return done


def _is_own(obj: Json) -> bool:
    """Whether a ConfigMap configures YuniKorn without queues, or with queues that are packed."""
    name = str((obj.get("metadata") or {}).get("name"))
    return obj.get("kind") == "ConfigMap" and name in ("yunikorn-configs", "yunikorn-defaults")


def _service(done: Written, obj: Json) -> None:
    """Settings of its process; of gangs, users and queues that are packed it is told."""
    name = (obj.get("metadata") or {}).get("name")
    packed = [key for key in obj.get("binaryData") or {} if key.startswith(_KEY)]
    packed += [key for key in obj.get("data") or {} if key.startswith(f"{_KEY}.")]
    done.lost += [f"ConfigMap {name}.{key}: it is packed: unpack it, and convert {_KEY}" for key in packed]
    keys = [key for key in obj.get("data") or {} if key != _KEY and key not in packed]
    for key in [key for key in keys if key in _SERVICE]:
        done.changes.append(f"ConfigMap {name}.{key}: {_SERVICE[key]}")
    if left := [key for key in keys if key not in _SERVICE]:
        done.changes.append(f"ConfigMap {name}: left out, as of that scheduler's own process: {', '.join(left)}")


def _walk(queues: Iterable[Mapping[str, Any]], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for each in queues or ():
        path = (*above, str(each.get("name")))
        yield path, each
        yield from _walk(each.get("queues") or (), path)


def _partition(done: Written, partition: Mapping[str, Any]) -> None:
    queues = [(path[1:], each) for path, each in _walk(partition.get("queues") or (), ()) if path[0] == "root"]
    often = Counter(path[-1] for path, _ in queues if path)
    names = {path: path[-1] if often[path[-1]] == 1 else "-".join(path) for path, _ in queues if path}
    for path, each in queues:
        if path:
            _queue(done, names, path, each)
        elif each.get("submitacl") not in (None, "", _ALL):
            done.lost.append(f"root.submitacl {each['submitacl']}: write unisono.io/users of each queue")
    for rule in partition.get("placementrules") or ():
        _rule(done, rule, names)
    for limit in partition.get("limits") or ():
        done.lost.append(f"limits of partition {partition.get('name')} ({_who(limit)}): write them of each queue")
    if (partition.get("preemption") or {}).get("enabled") is False:
        done.changes.append("preemption is off: leave preempt and reclaim out of the actions")
    if partition.get("nodesortpolicy"):
        kind = partition["nodesortpolicy"].get("type", "fair")
        plugin = "binpack" if kind == "binpacking" else "nodeorder"
        done.changes.append(f"nodesortpolicy {kind}: use plug-in {plugin} of the scheduler's configuration")


def _queue(
    done: Written, names: Mapping[tuple[str, ...], str], path: tuple[str, ...], queue: Mapping[str, Any]
) -> None:
    name, full_name = names[path], ".".join(("root", *path))
    if name != path[-1]:
        done.changes.append(f"{full_name} is Queue {name}: another queue is called {path[-1]}")
    resources, properties = queue.get("resources") or {}, dict(queue.get("properties") or {})
    priority = int(properties.pop("priority.offset", 0) or 0)
    order = str(properties.pop("application.sort.policy", "") or "")
    done.queue(
        name,
        parent=names.get(path[:-1]),
        deserved=_amounts(resources.get("guaranteed")),
        capability=_amounts(resources.get("max")),
        priority=priority if priority > 0 else None,
        dequeueStrategy="fifo" if order == "fifo" else None,
    )
    for key, value in properties.items():
        done.lost.append(f"{full_name}: property {key}: {value}")
    users, _, groups = str(queue.get("submitacl") or "").partition(" ")
    acl = [*users.split(","), *(f"group:{one}" for one in groups.strip().split(","))]
    listed = [one for one in acl if one not in ("", "group:")]
    if listed and _ALL not in listed and "group:*" not in listed:
        done.note(name, QUEUE_USERS, ", ".join(listed))
    if queue.get("adminacl"):
        done.lost.append(f"{full_name}.adminacl: give these users a Role that may change Queue {name}")
    if queue.get("maxapplications"):
        done.lost.append(f"{full_name}.maxapplications: limit jobs by a ResourceQuota of the namespace")
    for limit in queue.get("limits") or ():
        _limit(done, name, full_name, limit)
    why = {"childtemplate": "queues are not made by themselves: write each"}
    done.unread(full_name, queue, _READ, why)


def _amounts(given: Mapping[str, Any] | None) -> dict[str, str]:
    return texts({"cpu" if name == "vcore" else str(name): amount(value) for name, value in (given or {}).items()})


def _who(limit: Mapping[str, Any]) -> str:
    return ", ".join((*(limit.get("users") or ()), *(f"group {one}" for one in limit.get("groups") or ())))


def _limit(done: Written, name: str, told: str, limit: Mapping[str, Any]) -> None:
    most = [f"{key}={value}" for key, value in _amounts(limit.get("maxresources")).items()]
    if limit.get("maxapplications"):
        most.insert(0, f"jobs={limit['maxapplications']}")
    if _ALL in (limit.get("users") or ()):
        done.note(name, USER_LIMITS, ",".join(most))
    else:
        done.lost.append(f"{told}.limits of {_who(limit)} ({', '.join(most)}): a limit holds for every user alike")


def _rule(done: Written, rule: Mapping[str, Any], names: Mapping[tuple[str, ...], str]) -> None:
    kind = str(rule.get("name"))
    if kind == "provided":
        done.changes.append("placement rule provided: jobs name their queue in spec.queue, or in an annotation")
    elif kind == "fixed":
        path = tuple(str(rule.get("value", "")).removeprefix("root.").split("."))
        queue = names.get(path, path[-1])
        done.changes.append(f"placement rule fixed: annotate the namespaces: scheduling.volcano.sh/queue-name: {queue}")
    elif kind == "tag" and rule.get("value") == "namespace":
        done.changes.append(
            "placement rule tag namespace: annotate each namespace with scheduling.volcano.sh/queue-name and its queue"
        )
    else:
        done.lost.append(f"placement rule {kind} {rule.get('value', '')}".rstrip() + ": queues are not chosen by that")
    if rule.get("create"):
        done.lost.append(f"placement rule {kind}: create: queues are not made by themselves: write each")
