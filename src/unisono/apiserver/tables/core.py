"""Tables of core kinds beside pods: namespaces, nodes, configuration, services, claims, events, quotas, devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unisono.apiserver.tables.values import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Layout,
    Row,
    age,
    age_of,
    duration,
    get,
    items,
    join,
    mapping,
    name_of,
    seconds_of,
    text,
    wide,
)


def _default(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), age_of(obj, now)]


def _namespace(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), text(obj, "status", "phase"), age_of(obj, now)]


def _config_map(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), len(mapping(obj, "data")) + len(mapping(obj, "binaryData")), age_of(obj, now)]


def _secret(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), text(obj, "type"), len(mapping(obj, "data")), age_of(obj, now)]


def _service_account(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), len(items(obj, "secrets")), age_of(obj, now)]


def _service_port(port: Row) -> str:
    number, node_port, protocol = port.get("port"), port.get("nodePort"), port.get("protocol") or "TCP"
    return f"{number}:{node_port}/{protocol}" if node_port else f"{number}/{protocol}"


def _external_ip(obj: Row) -> str:
    spec = mapping(obj, "spec")
    external = [str(address) for address in items(spec, "externalIPs")]
    match spec.get("type"):
        case "ExternalName":
            return text(spec, "externalName", default=NONE)
        case "LoadBalancer":
            ingress = items(obj, "status", "loadBalancer", "ingress")
            given = [text(entry, "ip") or text(entry, "hostname") for entry in ingress]
            return join(given + external, "<pending>")
        case _:
            return join(external)


def _service(obj: Row, now: float) -> list[Any]:
    spec = mapping(obj, "spec")
    selector = mapping(spec, "selector")
    return [
        name_of(obj),
        text(spec, "type", default="ClusterIP"),
        text(spec, "clusterIP", default=NONE),
        _external_ip(obj),
        join([_service_port(port) for port in items(spec, "ports")]),
        age_of(obj, now),
        join([f"{key}={selector[key]}" for key in sorted(selector)]),
    ]


_ACCESS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _claim(obj: Row, now: float) -> list[Any]:
    phase = text(obj, "status", "phase")
    if get(obj, "metadata", "deletionTimestamp"):
        phase = "Terminating"
    bound = bool(get(obj, "spec", "volumeName"))
    modes = items(obj, "status", "accessModes") if bound else []
    return [
        name_of(obj),
        phase,
        text(obj, "spec", "volumeName"),
        text(obj, "status", "capacity", "storage") if bound else "",
        join([_ACCESS.get(str(mode), str(mode)) for mode in modes], ""),
        text(obj, "spec", "storageClassName"),
        text(obj, "spec", "volumeAttributesClassName", default=UNSET),
        age_of(obj, now),
        text(obj, "spec", "volumeMode", default=UNSET),
    ]


def _priority_class(obj: Row, now: float) -> list[Any]:
    return [
        name_of(obj),
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        age_of(obj, now),
        text(obj, "preemptionPolicy", default="PreemptLowerPriority"),
    ]


def _lease(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), text(obj, "spec", "holderIdentity"), age_of(obj, now)]


def _runtime_class(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), text(obj, "handler"), age_of(obj, now)]


def _created(obj: Row, _now: float) -> list[Any]:
    return [name_of(obj), text(obj, "metadata", "creationTimestamp")]


def _binding(obj: Row, now: float) -> list[Any]:
    subjects = items(obj, "subjects")
    named = {
        kind: [
            f"{text(one, 'namespace')}/{text(one, 'name')}" if kind == "ServiceAccount" else text(one, "name")
            for one in subjects
            if one.get("kind") == kind
        ]
        for kind in ("User", "Group", "ServiceAccount")
    }
    role = f"{text(obj, 'roleRef', 'kind')}/{text(obj, 'roleRef', 'name')}"
    return [name_of(obj), role, age_of(obj, now), *(", ".join(names) for names in named.values())]


DEFAULT = Layout((NAME, AGE), _default)
NAMESPACES = Layout((NAME, Column("Status"), AGE), _namespace)
CONFIG_MAPS = Layout((NAME, Column("Data"), AGE), _config_map)
SECRETS = Layout((NAME, Column("Type"), Column("Data"), AGE), _secret)
SERVICE_ACCOUNTS = Layout((NAME, Column("Secrets"), AGE), _service_account)
SERVICES = Layout(
    (NAME, Column("Type"), Column("Cluster-IP"), Column("External-IP"), Column("Port(s)"), AGE, wide("Selector")),
    _service,
)
CLAIMS = Layout(
    (
        NAME,
        Column("Status"),
        Column("Volume"),
        Column("Capacity"),
        Column("Access Modes"),
        Column("StorageClass"),
        Column("VolumeAttributesClass"),
        AGE,
        wide("VolumeMode"),
    ),
    _claim,
)
PRIORITY_CLASSES = Layout(
    (NAME, Column("Value", "integer"), Column("Global-Default", "boolean"), AGE, Column("PreemptionPolicy")),
    _priority_class,
)
RUNTIME_CLASSES = Layout((NAME, Column("Handler"), AGE), _runtime_class)
CREATED = Layout((NAME, Column("Created At", "date")), _created)
BINDINGS = Layout((NAME, Column("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")), _binding)
LEASES = Layout((NAME, Column("Holder"), AGE), _lease)
CRDS = Layout((NAME, Column("Created At", "date")), _created)


# The event table.


def _first(event: Row) -> Any:
    return get(event, "firstTimestamp") or get(event, "eventTime")


def _last_seen(event: Row, now: float) -> str:
    series = get(event, "series")
    if series:
        return age(series.get("lastObservedTime"), now)
    last = get(event, "lastTimestamp")
    return age(last, now) if last else _first_seen(event, now)


def _first_seen(event: Row, now: float) -> str:
    first = seconds_of(_first(event))
    return UNKNOWN if first is None else duration(now - first)


def _source(event: Row) -> str:
    component = text(event, "source", "component") or text(event, "reportingComponent")
    host = text(event, "source", "host") or text(event, "reportingInstance")
    return f"{component}, {host}" if host else component


def _event_cells(event: Row, now: float) -> list[Any]:
    count = get(event, "series", "count") or get(event, "count") or 1
    return [
        _last_seen(event, now),
        text(event, "type"),
        text(event, "reason"),
        f"{text(event, 'involvedObject', 'kind').lower()}/{text(event, 'involvedObject', 'name')}",
        text(event, "involvedObject", "fieldPath"),
        _source(event),
        text(event, "message").strip(),
        _first_seen(event, now),
        count,
        name_of(event),
    ]


EVENTS = Layout(
    (
        Column("Last Seen"),
        Column("Type"),
        Column("Reason"),
        Column("Object"),
        wide("Subobject"),
        wide("Source"),
        Column("Message"),
        wide("First Seen"),
        wide("Count"),
        replace(NAME, priority=1),
    ),
    _event_cells,
)

# The node table.

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def _status(node: Row) -> str:
    ready = next((c for c in items(node, "status", "conditions") if c.get("type") == "Ready"), None)
    word = "Unknown"
    if ready is not None:
        word = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if get(node, "spec", "unschedulable") else word


def _roles(node: Row) -> str:
    roles = set()
    for label, value in mapping(node, "metadata", "labels").items():
        if label.startswith(_ROLE_PREFIX) and label != _ROLE_PREFIX:
            roles.add(label.removeprefix(_ROLE_PREFIX))
        elif label == _ROLE_LABEL and value:
            roles.add(value)
    return join(sorted(roles))


def _address(node: Row, kind: str) -> str:
    addresses = items(node, "status", "addresses")
    return next((text(a, "address") for a in addresses if a.get("type") == kind), NONE)


def _node_cells(node: Row, now: float) -> list[Any]:
    info = mapping(node, "status", "nodeInfo")
    return [
        name_of(node),
        _status(node),
        _roles(node),
        age_of(node, now),
        text(info, "kubeletVersion"),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        text(info, "osImage", default=UNKNOWN),
        text(info, "kernelVersion", default=UNKNOWN),
        text(info, "containerRuntimeVersion", default=UNKNOWN),
    ]


NODES = Layout(
    (
        NAME,
        Column("Status", description="Whether the node takes pods."),
        Column("Roles", description="Roles, from the node's labels."),
        AGE,
        Column("Version", description="Version of the agent."),
        wide("Internal-IP", "Address inside the cluster."),
        wide("External-IP", "Address outside the cluster."),
        wide("OS-Image", "Operating system."),
        wide("Kernel-Version", "Kernel."),
        wide("Container-Runtime", "What runs the containers."),
    ),
    _node_cells,
)

# Tables of resource quotas, disruption budgets and network policies.

_UNLIMITED = "N/A"


def _quota(obj: Row, now: float) -> list[Any]:
    hard, used = mapping(obj, "spec", "hard"), mapping(obj, "status", "used")
    parts = {name: f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard)}
    limits = [part for name, part in parts.items() if name.startswith("limits")]
    requests = [part for name, part in parts.items() if not name.startswith("limits")]
    created = age_of(obj, now)
    return [name_of(obj), ", ".join(requests), ", ".join(limits), created]


def _budget(obj: Row, now: float) -> list[Any]:
    spec = mapping(obj, "spec")
    return [
        name_of(obj),
        text(spec, "minAvailable", default=_UNLIMITED),
        text(spec, "maxUnavailable", default=_UNLIMITED),
        get(obj, "status", "disruptionsAllowed") or 0,
        age_of(obj, now),
    ]


def _network_policy(obj: Row, now: float) -> list[Any]:
    labels = mapping(obj, "spec", "podSelector", "matchLabels")
    selector = join([f"{key}={labels[key]}" for key in sorted(labels)], NONE)
    return [name_of(obj), selector, age_of(obj, now)]


QUOTAS = Layout((NAME, Column("Request"), Column("Limit"), AGE), _quota)
BUDGETS = Layout(
    (NAME, Column("Min Available"), Column("Max Unavailable"), Column("Allowed Disruptions", "integer"), AGE), _budget
)
NETWORK_POLICIES = Layout((NAME, Column("Pod-Selector"), AGE), _network_policy)


# Tables of resource claims and of the devices that nodes offer.


def _resource_claim(obj: Row, now: float) -> list[Any]:
    deleted, allocated = get(obj, "metadata", "deletionTimestamp"), get(obj, "status", "allocation")
    states = ["deleted"] if deleted else []
    if allocated:
        states += ["allocated", *(["reserved"] if items(obj, "status", "reservedFor") else [])]
    elif not deleted:
        states.append("pending")
    return [name_of(obj), ",".join(states), age_of(obj, now)]


def _slice(obj: Row, now: float) -> list[Any]:
    return [
        name_of(obj),
        text(obj, "spec", "nodeName"),
        text(obj, "spec", "driver"),
        text(obj, "spec", "pool", "name"),
        age_of(obj, now),
    ]


def _named(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), age_of(obj, now)]


_STATE = "A summary of the current state (allocated, pending, reserved, etc.)."
DEVICE_KINDS = Layout((NAME, AGE), _named)
RESOURCE_CLAIMS = Layout((NAME, Column("State", description=_STATE), AGE), _resource_claim)
RESOURCE_SLICES = Layout((NAME, Column("Node"), Column("Driver"), Column("Pool"), AGE), _slice)
