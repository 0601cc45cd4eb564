"""Tables of the smaller core kinds: namespaces, configuration, services, claims, classes, leases, CRDs."""

from __future__ import annotations

from typing import Any

from unisono.apiserver.tables.columns import AGE, NAME, Column, Layout, Row, wide
from unisono.apiserver.tables.values import NONE, UNSET, age, get, items, join, mapping, text


def _name(obj: Row) -> str:
    return text(obj, "metadata", "name")


def _age(obj: Row, now: float) -> str:
    return age(get(obj, "metadata", "creationTimestamp"), now)


def _default(obj: Row, now: float) -> list[Any]:
    return [_name(obj), _age(obj, now)]


def _namespace(obj: Row, now: float) -> list[Any]:
    return [_name(obj), text(obj, "status", "phase"), _age(obj, now)]


def _config_map(obj: Row, now: float) -> list[Any]:
    return [_name(obj), len(mapping(obj, "data")) + len(mapping(obj, "binaryData")), _age(obj, now)]


def _secret(obj: Row, now: float) -> list[Any]:
    return [_name(obj), text(obj, "type"), len(mapping(obj, "data")), _age(obj, now)]


def _service_account(obj: Row, now: float) -> list[Any]:
    return [_name(obj), len(items(obj, "secrets")), _age(obj, now)]


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
        _name(obj),
        text(spec, "type", default="ClusterIP"),
        text(spec, "clusterIP", default=NONE),
        _external_ip(obj),
        join([_service_port(port) for port in items(spec, "ports")]),
        _age(obj, now),
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
        _name(obj),
        phase,
        text(obj, "spec", "volumeName"),
        text(obj, "status", "capacity", "storage") if bound else "",
        join([_ACCESS.get(str(mode), str(mode)) for mode in modes], ""),
        text(obj, "spec", "storageClassName"),
        text(obj, "spec", "volumeAttributesClassName", default=UNSET),
        _age(obj, now),
        text(obj, "spec", "volumeMode", default=UNSET),
    ]


def _priority_class(obj: Row, now: float) -> list[Any]:
    return [
        _name(obj),
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        _age(obj, now),
        text(obj, "preemptionPolicy", default="PreemptLowerPriority"),
    ]


def _lease(obj: Row, now: float) -> list[Any]:
    return [_name(obj), text(obj, "spec", "holderIdentity"), _age(obj, now)]


def _crd(obj: Row, _now: float) -> list[Any]:
    return [_name(obj), text(obj, "metadata", "creationTimestamp")]


def _runtime_class(obj: Row, now: float) -> list[Any]:
    return [_name(obj), text(obj, "handler"), _age(obj, now)]


def _created(obj: Row, _now: float) -> list[Any]:
    return [_name(obj), text(obj, "metadata", "creationTimestamp")]


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
    return [_name(obj), role, _age(obj, now), *(", ".join(names) for names in named.values())]


DEFAULT = Layout((NAME, AGE), _default)
NAMESPACES = Layout((NAME, Column("Status"), AGE), _namespace)
CONFIG_MAPS = Layout((NAME, Column("Data"), AGE), _config_map)
SECRETS = Layout((NAME, Column("Type"), Column("Data"), AGE), _secret)
SERVICE_ACCOUNTS = Layout((NAME, Column("Secrets"), AGE), _service_account)
SERVICES = Layout(
    (
        NAME,
        Column("Type"),
        Column("Cluster-IP"),
        Column("External-IP"),
        Column("Port(s)"),
        AGE,
        wide("Selector"),
    ),
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
BINDINGS = Layout(
    (NAME, Column("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")),
    _binding,
)
LEASES = Layout((NAME, Column("Holder"), AGE), _lease)
CRDS = Layout((NAME, Column("Created At", "date")), _crd)
