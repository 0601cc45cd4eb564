"""kubectl with kinds that users define."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from support.definitions import crd, obj_schema, version, widget
from support.kubectl import Plane

pytestmark = pytest.mark.kubectl

SCHEMA = obj_schema(
    spec={
        "description": "What the widget is to be.",
        **obj_schema(
            size={"type": "integer", "minimum": 1, "description": "How many parts it has."},
            color={"type": "string", "enum": ["red", "blue"], "default": "red"},
            ports={
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": obj_schema(name={"type": "string"}, port={"type": "integer"}, required=["name"]),
            },
            required=["size"],
        ),
    },
    status=obj_schema(size={"type": "integer"}, phase={"type": "string"}),
)
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
SUBRESOURCES = {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}


def definition() -> dict[str, Any]:
    return crd(
        "widgets",
        version(
            schema=SCHEMA,
            additionalPrinterColumns=COLUMNS,
            subresources=SUBRESOURCES,
            selectableFields=[{"jsonPath": ".spec.color"}],
        ),
        shortNames=["wd"],
        categories=["toys"],
    )


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


async def defined(plane: Plane) -> None:
    await plane.apply(definition())
    await plane.ok("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=300s")


async def test_a_kind_from_its_definition_to_its_end(plane: Plane) -> None:
    await defined(plane)
    assert "widgets" in await plane.ok("api-resources", "--api-group=example.com")
    assert await plane.apply(widget("w", {"size": 2})) == "widget.example.com/w created\n"
    assert rows(await plane.ok("get", "wd"))[0] == ["NAME", "SIZE", "PHASE", "AGE"]
    wide = rows(await plane.ok("get", "toys", "-o", "wide"))
    assert wide[0] == ["NAME", "SIZE", "PHASE", "COLOR", "AGE"]
    assert wide[1][:3] == ["w", "2", "red"]
    assert "blue" not in await plane.ok("get", "wd", "--field-selector=spec.color=blue")
    assert "How many parts it has." in await plane.ok("explain", "widget.spec.size")
    assert await plane.apply(widget("w", {"size": 3, "color": "blue"})) == "widget.example.com/w configured\n"
    assert await plane.ok("get", "wd", "-o", "name", "--field-selector=spec.color=blue") == "widget.example.com/w\n"
    await plane.ok("delete", "crd", "widgets.example.com")
    gone = await plane.run("get", "widgets")
    assert gone.code == 1
    assert "the server could not find the requested resource" in gone.err


async def test_bad_objects_are_refused_as_kubernetes_words_it(plane: Plane) -> None:
    await defined(plane)
    bad = await plane.run("create", "-f", "-", stdin=yaml.safe_dump(widget("w", {"size": "many", "color": "green"})))
    assert bad.code == 1
    assert 'The Widget "w" is invalid' in bad.err
    assert '* spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"' in bad.err
    assert '* spec.color: Unsupported value: "green": supported values: "red", "blue"' in bad.err
    unknown = await plane.run("create", "-f", "-", stdin=yaml.safe_dump(widget("w", {"size": 1, "sise": 2})))
    assert 'strict decoding error: unknown field "spec.sise"' in unknown.err


async def test_patches_status_and_scale(plane: Plane) -> None:
    await defined(plane)
    await plane.apply(widget("w", {"size": 2}))
    refused = await plane.run("patch", "wd", "w", "-p", '{"spec":{"size":5}}')
    assert "application/merge-patch+json" in refused.err
    await plane.ok("patch", "wd", "w", "--type=merge", "-p", '{"spec":{"size":5}}')
    change = '[{"op":"replace","path":"/spec/color","value":"blue"}]'
    await plane.ok("patch", "wd", "w", "--type=json", "-p", change)
    status = '{"status":{"phase":"Ready","size":5},"spec":{"size":9}}'
    await plane.ok("patch", "wd", "w", "--type=merge", "--subresource=status", "-p", status)
    found = json.loads(await plane.ok("get", "wd", "w", "-o", "json"))
    assert found["spec"] == {"size": 5, "color": "blue"}
    assert found["status"] == {"phase": "Ready", "size": 5}
    assert found["metadata"]["generation"] == 3
    assert "scaled" in await plane.ok("scale", "wd/w", "--replicas=7")
    assert "condition met" in await plane.ok("wait", "wd/w", "--for=jsonpath={.spec.size}=7", "--timeout=300s")
    scale = json.loads(await plane.ok("get", "--raw", "/apis/example.com/v1/namespaces/default/widgets/w/scale"))
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 7}, {"replicas": 5})
    too_few = await plane.run("scale", "wd/w", "--replicas=0")
    assert "spec.size in body should be greater than or equal to 1" in too_few.err


async def test_server_side_apply_merges_map_lists(plane: Plane) -> None:
    await defined(plane)
    one = yaml.safe_dump(widget("w", {"size": 1, "ports": [{"name": "a", "port": 1}]}))
    two = yaml.safe_dump(widget("w", {"ports": [{"name": "b", "port": 2}]}))
    await plane.ok("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=one)
    await plane.ok("apply", "--server-side", "--field-manager=two", "-f", "-", stdin=two)
    found = json.loads(await plane.ok("get", "wd", "w", "-o", "json"))
    assert [port["name"] for port in found["spec"]["ports"]] == ["a", "b"]
    other = yaml.safe_dump(widget("w", {"size": 2}))
    conflict = await plane.run("apply", "--server-side", "--field-manager=two", "-f", "-", stdin=other)
    assert 'conflict with "one": .spec.size' in conflict.err


async def test_a_definition_and_its_objects_in_one_file(plane: Plane) -> None:
    files = yaml.safe_dump_all([definition(), widget("w", {"size": 1})])
    first = await plane.run("create", "-f", "-", stdin=files)
    # kubectl asks for the kinds before it sends anything, on a real cluster too.
    assert 'no matches for kind "Widget" in version "example.com/v1"' in first.err
    assert "widget.example.com/w created" in await plane.apply(widget("w", {"size": 1}))


async def test_kinds_that_are_not_installed_have_no_match(plane: Plane) -> None:
    broker = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": "s"}}
    missing = await plane.run("apply", "-f", "-", stdin=yaml.safe_dump(broker))
    assert missing.code == 1
    assert 'no matches for kind "Broker" in version "eventing.knative.dev/v1"' in missing.err
    assert "ensure CRDs are installed first" in missing.err
