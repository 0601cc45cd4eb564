from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.api.kinds import ALL_KINDS, JOBS, NODES, POD_GROUPS, PODS, QUEUES
from unisono.apiserver.tables.render import TableWriter, compile_path, layout
from unisono.apiserver.tables.values import age, duration

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:00:00Z"

DURATIONS = [
    (-5, "<invalid>"),
    (-1, "0s"),
    (0, "0s"),
    (119, "119s"),
    (120, "2m"),
    (303, "5m3s"),
    (600, "10m"),
    (179 * 60, "179m"),
    (3 * 3600, "3h"),
    (4 * 3600 + 120, "4h2m"),
    (9 * 3600 + 120, "9h"),
    (47 * 3600, "47h"),
    (3 * 86400 + 3600, "3d1h"),
    (30 * 86400, "30d"),
    (729 * 86400, "729d"),
    (800 * 86400, "2y70d"),
    (3000 * 86400, "8y"),
]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("timestamp", "text"), [(CREATED, "60m"), (None, "<unknown>"), ("soon", "<unknown>")])
def test_ages(timestamp: Any, text: str) -> None:
    assert age(timestamp, NOW) == text


@given(st.floats(min_value=0, max_value=1e10))
def test_durations_are_short(seconds: float) -> None:
    assert 2 <= len(duration(seconds)) <= 7


PATHS = [
    (".spec.queue", "q"),
    ("{.spec.queue}", "q"),
    ("$.spec.queue", "q"),
    (".spec.missing", None),
    (".spec.queue.deeper", None),
    (".list[0].n", 1),
    (".list[-1].n", 2),
    (".list[7].n", None),
    (".list[-7].n", None),
    (".list[*].n", 1),
    ('.list[?(@.type=="b")].n', 2),
    ('.list[?(@.type == "c")].n', None),
    (".list[?(@.n==2)].type", "b"),
    (".list[?( @.n  ==  2  )].type", "b"),
    (r".labels.a\.b/c", "dotted"),
    ("['labels']['a.b/c']", "dotted"),
]


@pytest.mark.parametrize(("path", "value"), PATHS)
def test_json_paths(path: str, value: Any) -> None:
    obj = {
        "spec": {"queue": "q"},
        "list": [{"type": "a", "n": 1}, {"type": "b", "n": 2}],
        "labels": {"a.b/c": "dotted"},
    }
    assert compile_path(path)(obj) == value


def test_unreadable_json_path() -> None:
    with pytest.raises(ValueError, match="cannot read"):
        compile_path(".a[?(@.b>1)]")


def test_a_long_path_is_read_in_one_way_only() -> None:
    # Read in more than one way, this would take hours: the time would grow with the cube of the blanks.
    with pytest.raises(ValueError, match="cannot read"):
        compile_path(".a[?(@.b==" + " " * 100_000 + "x")
    assert compile_path(".a" * 50_000)({"a": {"a": 1}}) is None


def rows(kind: Any, *objects: dict[str, Any], **options: Any) -> dict[str, Any]:
    return TableWriter(kind, **options).table(list(objects), {"resourceVersion": "7"}, NOW)


def shown(kind: Any, obj: dict[str, Any]) -> dict[str, Any]:
    table = rows(kind, obj)
    return dict(zip((c["name"] for c in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))


def metadata(name: str = "x", **more: Any) -> dict[str, Any]:
    return {"name": name, "creationTimestamp": CREATED, **more}


KINDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "Node",
        {
            "metadata": metadata(labels={"node-role.kubernetes.io/gpu": "", "kubernetes.io/role": "worker"}),
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1", "osImage": "Debian"},
            },
        },
        {
            "Status": "Ready,SchedulingDisabled",
            "Roles": "gpu,worker",
            "Age": "60m",
            "Version": "v1",
            "Internal-IP": "127.0.0.1",
            "External-IP": "<none>",
            "OS-Image": "Debian",
            "Kernel-Version": "<unknown>",
        },
    ),
    ("Node", {"metadata": metadata()}, {"Status": "Unknown", "Roles": "<none>"}),
    ("Namespace", {"metadata": metadata(), "status": {"phase": "Active"}}, {"Status": "Active", "Age": "60m"}),
    ("ConfigMap", {"metadata": metadata(), "data": {"a": "1"}, "binaryData": {"b": ""}}, {"Data": 2}),
    ("Secret", {"metadata": metadata(), "type": "Opaque", "data": {"a": ""}}, {"Type": "Opaque", "Data": 1}),
    (
        "Service",
        {
            "metadata": metadata(),
            "spec": {
                "type": "NodePort",
                "clusterIP": "None",
                "ports": [{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP"}],
                "selector": {"b": "2", "a": "1"},
            },
        },
        {
            "Type": "NodePort",
            "Cluster-IP": "None",
            "External-IP": "<none>",
            "Port(s)": "80:30080/TCP,53/UDP",
            "Selector": "a=1,b=2",
        },
    ),
    (
        "PersistentVolumeClaim",
        {
            "metadata": metadata(),
            "spec": {"volumeName": "v", "storageClassName": "local"},
            "status": {
                "phase": "Bound",
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            },
        },
        {"Status": "Bound", "Volume": "v", "Capacity": "1Gi", "Access Modes": "RWO,RWX", "StorageClass": "local"},
    ),
    (
        "PriorityClass",
        {"metadata": metadata(), "value": 1000},
        {"Value": 1000, "Global-Default": False, "PreemptionPolicy": "PreemptLowerPriority"},
    ),
    ("RuntimeClass", {"metadata": metadata(), "handler": "runsc"}, {"Handler": "runsc", "Age": "60m"}),
    (
        "ResourceQuota",
        {
            "metadata": metadata(),
            "spec": {"hard": {"pods": "4", "limits.cpu": "2", "cpu": "1"}},
            "status": {"used": {"cpu": "500m"}},
        },
        {"Request": "cpu: 500m/1, pods: 0/4", "Limit": "limits.cpu: 0/2", "Age": "60m"},
    ),
    (
        "PodDisruptionBudget",
        {"metadata": metadata(), "spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}},
        {"Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 2, "Age": "60m"},
    ),
    ("Lease", {"metadata": metadata(), "spec": {"holderIdentity": "me"}}, {"Holder": "me", "Age": "60m"}),
    (
        "Event",
        {
            "metadata": metadata("x.1"),
            "involvedObject": {"kind": "Pod", "name": "p"},
            "type": "Warning",
            "reason": "FailedScheduling",
            "message": "no room\n",
            "count": 3,
            "firstTimestamp": CREATED,
            "lastTimestamp": "2027-01-15T07:59:55Z",
            "source": {"component": "scheduler", "host": "h"},
        },
        {
            "Last Seen": "5s",
            "Type": "Warning",
            "Reason": "FailedScheduling",
            "Object": "pod/p",
            "Message": "no room",
            "First Seen": "60m",
            "Count": 3,
            "Source": "scheduler, h",
        },
    ),
    (
        "Event",
        {
            "metadata": metadata("x.2"),
            "eventTime": "2027-01-15T07:59:00.000001Z",
            "series": {"count": 9, "lastObservedTime": "2027-01-15T07:59:50Z"},
            "reportingComponent": "scheduler",
        },
        {"Last Seen": "10s", "Count": 9, "First Seen": "59s", "Source": "scheduler"},
    ),
    (
        "Job",
        {
            "metadata": metadata(),
            "spec": {"queue": "q"},
            "status": {"state": {"phase": "Running"}, "minAvailable": 4, "running": 3},
        },
        {"Name": "x", "STATUS": "Running", "minAvailable": 4, "RUNNINGS": 3, "AGE": "60m", "QUEUE": "q"},
    ),
    ("Job", {"metadata": metadata()}, {"STATUS": None, "RUNNINGS": None}),
    (
        "PodGroup",
        {"metadata": metadata(), "spec": {"minMember": 2, "queue": "q"}, "status": {"phase": "Inqueue"}},
        {"STATUS": "Inqueue", "minMember": 2, "RUNNINGS": None, "QUEUE": "q"},
    ),
    (
        "Queue",
        {
            "metadata": metadata(),
            "spec": {"parent": "root", "weight": 2},
            "status": {"state": "Open", "allocated": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "3"}},
        },
        {"PARENT": "root", "STATE": "Open", "WEIGHT": 2, "CPU": "4", "MEMORY": "8Gi", "GPU": "3", "AGE": "60m"},
    ),
    (
        "Budget",
        {
            "metadata": metadata(),
            "spec": {"mode": "Hard", "amounts": {"nvidia.com/gpu": 50}},
            "status": {
                "used": {"nvidia.com/gpu": "0.6581234567"},
                "conditions": [{"type": "UsedUp", "status": "False", "message": "0.658 of 50 hours of nvidia.com/gpu"}],
            },
        },
        {"Mode": "Hard", "Used": "0.658 of 50 hours of nvidia.com/gpu", "UsedUp": "False"},
    ),
]


def test_no_column_of_budgets_shows_a_map() -> None:
    kind = next(kind for kind in ALL_KINDS if kind.kind == "Budget")
    amounts = {"cpu": "1"}
    obj = {
        "metadata": metadata(),
        "spec": {"amounts": amounts},
        "status": dict.fromkeys(("used", "left", "rate"), amounts),
    }
    assert not [value for value in shown(kind, obj).values() if isinstance(value, dict | list)]


@pytest.mark.parametrize(("kind_name", "obj", "expected"), KINDS)
def test_cells(kind_name: str, obj: dict[str, Any], expected: dict[str, Any]) -> None:
    kind = next(
        kind
        for kind in ALL_KINDS
        if kind.kind == kind_name and kind.group != "batch" and kind is not WORKLOAD_POD_GROUPS
    )
    found = shown(kind, obj)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.resource)
def test_every_kind_shows_even_an_empty_object(kind: Any) -> None:
    table = rows(kind, {"metadata": {"name": "x"}})
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])
    assert any(column["format"] == "name" or column["name"] == "Name" for column in table["columnDefinitions"])


@pytest.mark.parametrize(
    ("kind", "wide"),
    [
        (PODS, {"IP", "Node", "Nominated Node", "Readiness Gates"}),
        (NODES, {"Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"}),
        (JOBS, {"QUEUE"}),
        (POD_GROUPS, {"QUEUE"}),
        (QUEUES, {"DESERVED", "CAPABILITY"}),
    ],
)
def test_wide_columns(kind: Any, wide: set[str]) -> None:
    assert {column.name for column in layout(kind).columns if column.priority} == wide


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        (
            "Metadata",
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}},
        ),
        ("Object", {"metadata": {"name": "x"}, "data": {"a": "b"}}),
        ("None", None),
    ],
)
def test_rows_carry_what_is_asked(include: Any, expected: Any) -> None:
    kind = next(kind for kind in ALL_KINDS if kind.kind == "ConfigMap")
    table = rows(kind, {"metadata": {"name": "x"}, "data": {"a": "b"}}, include_object=include)
    assert table["rows"][0].get("object") == expected
    assert table["metadata"] == {"resourceVersion": "7"}
