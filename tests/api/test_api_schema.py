"""Generated schemas and CRDs: structural, complete, and fit for what users write."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from unisono.api import kinds
from unisono.api.core import CustomResourceDefinition
from unisono.api.crds import columns, crd_manifests
from unisono.api.decode import Shape, decode, shape_of
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
from unisono.api.merge_keys import LISTS
from unisono.api.schema import schema_of
from unisono.api.validation import validate

MANIFESTS = {manifest["metadata"]["name"]: manifest for manifest in crd_manifests()}

GANG = {
    "apiVersion": "batch.volcano.sh/v1beta1",
    "kind": "Job",
    "metadata": {"name": "gang"},
    "spec": {
        "minAvailable": 9,
        "schedulerName": "volcano",
        "queue": "ai-training-queue",
        "plugins": {"ray": [], "svc": []},
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
        "tasks": [
            {
                "name": "worker",
                "replicas": 8,
                "dependsOn": {"name": ["ps"]},
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "pytorch",
                                "image": "pytorch/pytorch:2.1.0",
                                "command": ["python", "train.py"],
                                "ports": [{"containerPort": 23456, "name": "port"}],
                                "env": [{"name": "NCCL_IB_DISABLE", "value": "0"}],
                                "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "8", "memory": "32Gi"}},
                                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                            }
                        ],
                        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}],
                    }
                },
            },
            {"name": "ps", "replicas": 1, "template": {"spec": {"containers": [{"name": "ps", "image": "p"}]}}},
        ],
    },
}
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {"weight": 1, "capability": {"cpu": "100", "nvidia.com/gpu": 50}, "guarantee": {"resource": {"cpu": 20}}},
}
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {"minMember": 8, "minTaskMember": {"master": 1}, "queue": "q", "priorityClassName": "high-priority"},
}


def fits(schema: dict[str, Any], value: Any, path: str = "") -> Iterator[str]:
    """A small independent reader of structural schemas: what of ``value`` it would refuse or prune."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, str | int):
            yield f"{path}: not int-or-string"
        elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
            yield f"{path}: pattern"
        return
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    expected = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}[schema["type"]]
    if not isinstance(value, expected):
        yield f"{path}: not {schema['type']}"
    elif isinstance(value, dict) and "additionalProperties" in schema:
        for key, each in value.items():
            yield from fits(schema["additionalProperties"], each, f"{path}[{key}]")
    elif isinstance(value, dict):
        yield from (f"{path}.{key}: required" for key in schema.get("required", ()) if key not in value)
        for key, each in value.items():
            if key in schema.get("properties", {}):
                yield from fits(schema["properties"][key], each, f"{path}.{key}")
            elif "properties" in schema:
                yield f"{path}.{key}: unknown"
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from fits(schema["items"], each, f"{path}[{index}]")
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path}: enum"
    elif "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: pattern"
    elif "minimum" in schema and value < schema["minimum"]:
        yield f"{path}: minimum"


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from nodes(schema[name], f"{path}[]")


def versions(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for version in manifest["spec"]["versions"]:
        yield version["schema"]["openAPIV3Schema"]


@pytest.mark.parametrize("value", [GANG, QUEUE, GROUP], ids=lambda value: value["kind"])
def test_manifests_of_users_fit(value: dict[str, Any]) -> None:
    kind = kinds.find(value["apiVersion"], value["kind"])
    assert kind is not None
    for schema in versions(MANIFESTS[kind.resource]):
        assert list(fits(schema, value)) == []
    decoded = decode(kind, value)
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    apply_defaults(kind, decoded.obj)
    assert validate(kind, decoded.obj) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minAvailable": -1}, ".spec.minAvailable: minimum"),
        ({"queue": "Not_DNS"}, ".spec.queue: pattern"),
        ({"tasks": [{"topologyPolicy": "some"}]}, ".spec.tasks[0].topologyPolicy: enum"),
        ({"bogus": 1}, ".spec.bogus: unknown"),
        ({"volumes": [{}]}, ".spec.volumes[0].mountPath: required"),
    ],
)
def test_schemas_refuse_what_validation_refuses(spec: dict[str, Any], problem: str) -> None:
    (schema, _) = versions(MANIFESTS["jobs.batch.volcano.sh"])
    assert problem in list(fits(schema, {"spec": spec}))


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_schemas_are_structural(manifest: dict[str, Any]) -> None:
    for schema in versions(manifest):
        assert schema["properties"]["metadata"] == {"type": "object"}
        for path, node in nodes(schema):
            free = node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
            assert "type" in node or free, path
            assert not ("properties" in node and "additionalProperties" in node), path
            assert "x-kubernetes-patch-merge-key" not in node, path
            kind_of_list = node.get("x-kubernetes-list-type")
            assert kind_of_list in (None, "atomic", "set", "map"), path
            if kind_of_list == "map":
                item = node["items"]
                for key in node["x-kubernetes-list-map-keys"]:
                    assert key in item["required"] or "default" in item["properties"][key], path
            if kind_of_list == "set":
                assert node["items"]["type"] == "string", path


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_crds_are_valid_objects(manifest: dict[str, Any]) -> None:
    kind: Kind[CustomResourceDefinition] = kinds.CUSTOM_RESOURCE_DEFINITIONS
    decoded = decode(kind, manifest)
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    apply_defaults(kind, decoded.obj)
    assert validate(kind, decoded.obj) == []


def test_crds_are_volcanos() -> None:
    shown = {
        name: (
            manifest["spec"]["scope"],
            manifest["spec"]["names"].get("shortNames", []),
            [(version["name"], version["storage"]) for version in manifest["spec"]["versions"]],
            "status" in manifest["spec"]["versions"][0]["subresources"],
        )
        for name, manifest in MANIFESTS.items()
        if name.endswith(".volcano.sh")
    }
    assert shown == {
        "jobs.batch.volcano.sh": (
            "Namespaced",
            ["vcjob", "vj", "vjob"],
            [("v1alpha1", True), ("v1beta1", False)],
            True,
        ),
        "podgroups.scheduling.volcano.sh": ("Namespaced", ["pg", "podgroup-v1beta1"], [("v1beta1", True)], False),
        "queues.scheduling.volcano.sh": ("Cluster", ["q", "queue-v1beta1"], [("v1beta1", True)], True),
        "commands.bus.volcano.sh": ("Namespaced", [], [("v1alpha1", True)], False),
        "hypernodes.topology.volcano.sh": ("Cluster", ["hn"], [("v1alpha1", True)], True),
        "numatopologies.nodeinfo.volcano.sh": ("Cluster", ["numatopo"], [("v1alpha1", True)], False),
        "cronjobs.batch.volcano.sh": ("Namespaced", ["cronvcjob", "cronvj"], [("v1alpha1", True)], True),
        "jobflows.flow.volcano.sh": ("Namespaced", ["jf"], [("v1alpha1", True)], True),
        "jobtemplates.flow.volcano.sh": ("Namespaced", ["jt"], [("v1alpha1", True)], True),
        "hyperjobs.training.volcano.sh": ("Namespaced", ["hj"], [("v1alpha1", True)], True),
    }


def test_manifests_are_the_callers_own() -> None:
    crd_manifests()[0]["spec"].clear()
    assert crd_manifests()[0]["spec"]


def test_printer_columns_name_fields_that_exist() -> None:
    for kind in kinds.CUSTOM_KINDS:
        for column in columns(kind):
            schema = schema_of(kind)
            for name in re.split(r"(?<!\\)\.", re.sub(r"\[[^]]*\]", "[]", column.json_path).removeprefix(".")):
                if "properties" not in schema:  # a map with names of its own, such as amounts of resources
                    schema = schema["additionalProperties"]
                    continue
                schema = schema["properties"][name.removesuffix("[]")]
                schema = schema["items"] if name.endswith("[]") else schema


def test_merge_keys_stand_in_the_schema_of_built_in_kinds() -> None:
    spec = schema_of(kinds.PODS)["properties"]["spec"]["properties"]
    assert spec["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    container = spec["containers"]["items"]["properties"]
    assert container["ports"]["x-kubernetes-patch-merge-key"] == "containerPort"
    assert container["ports"]["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert container["args"]["x-kubernetes-list-type"] == "atomic"
    assert "x-kubernetes-patch-merge-key" not in spec["tolerations"]
    assert "x-kubernetes-patch-merge-key" not in schema_of(kinds.NODES)["properties"]["spec"]["properties"]["taints"]
    meta = schema_of(kinds.PODS)["properties"]["metadata"]["properties"]
    assert meta["finalizers"]["x-kubernetes-list-type"] == "set"
    assert meta["ownerReferences"]["x-kubernetes-patch-merge-key"] == "uid"


def test_merge_keys_name_lists_that_exist() -> None:
    found: set[tuple[str, str]] = set()

    def visit(shape: Shape) -> None:
        if shape.item is not None:
            visit(shape.item)
        for name, each in shape.fields.items():
            assert shape.struct is not None
            if each.shape.kind == "array":
                found.add((shape.struct.__name__, name))
            visit(each.shape)

    for kind in kinds.ALL_KINDS:
        visit(shape_of(kind.struct))
    missing = {(struct, name) for struct, lists in LISTS.items() for name in lists} - found
    assert not missing


def test_descriptions_come_from_docstrings() -> None:
    schema = schema_of(kinds.QUEUES)
    assert schema["description"] == "Where jobs wait, and the share of the cluster that they wait for."
    assert schema["properties"]["spec"]["properties"]["capability"]["description"] == "hard upper limit."
    job_spec = schema_of(kinds.JOBS)["properties"]["spec"]["properties"]
    assert all(field.get("description") for field in job_spec.values())


def test_kinds_are_found_by_their_names() -> None:
    for kind in kinds.ALL_KINDS:
        assert kinds.find(kind.api_version, kind.kind) is kind
        assert kinds.find_resource(kind.group, kind.version, kind.plural) is kind
    assert kinds.find_resource("batch.volcano.sh", "v1beta1", "jobs") is kinds.JOBS
    assert kinds.find("batch/v1", "Job") is not kinds.JOBS
    assert kinds.find_resource("", "v1", "jobs") is None
