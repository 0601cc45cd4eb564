"""Every value of the chart reaches an object, as it was set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from install_chart import CHART, rendered

DIGEST = f"sha256:{'ab' * 32}"
PEER = [{"podSelector": {"matchLabels": {"p": "own-peer"}}}]


def own(schema: dict[str, Any], value: Any, path: tuple[str, ...]) -> Any:
    """A value of the right form that no default is."""
    name = path[-1]
    special: dict[tuple[str, ...], Any] = {
        ("image", "digest"): DIGEST,
        ("imagePullSecrets",): [{"name": "own-name"}, "own-secret"],
        ("schedulerConfig",): "actions: own-config\n",
        ("dashboard", "names"): ["own.example.com"],
        ("numaExporter", "kubeletDir"): "/own/kubelet",
        ("numaExporter", "kubeletConfig"): "/own-folder/config.yaml",
        ("history", "prometheus"): "http://own:9090",
        ("monitoring", "interval"): "47s",
        ("networkPolicy", "metricsFrom"): PEER,
        ("networkPolicy", "dashboardFrom"): PEER,
    }
    if path in special:
        return special[path]
    if "enum" in schema:
        return next(each for each in schema["enum"] if each != value)
    match name:
        case "resources":
            return {"requests": {"cpu": "47m"}, "limits": {"cpu": "48"}}
        case "tolerations":
            return [{"key": "own-key", "operator": "Exists"}]
        case "affinity":
            return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"own": "x"}}}
        case "topologySpreadConstraints":
            return [{"maxSkew": 47, "topologyKey": "own-key", "whenUnsatisfiable": "DoNotSchedule"}]
    plain = {"string": "own-text", "array": ["own-text"], "object": {"own-key": "own-text"}, "boolean": not value}
    return min(47, schema.get("maximum", 47)) if schema["type"] == "integer" else plain[schema["type"]]


# What must be set for a value to be seen.
NEEDS: dict[str, dict[str, Any]] = {
    "agent": {"agent": {"simulate": 3}},
    "dashboard": {"dashboard": {"enabled": True, "names": ["d.example.com"]}},
    **{
        f"dashboard.ingress.{name}": {"dashboard": {"ingress": {"enabled": True}}}
        for name in ("className", "annotations", "tlsSecret")
    },
    "numaExporter": {"numaExporter": {"enabled": True}},
    "history": {"dashboard": {"enabled": True}},
    "history.days": {"history": {"secret": "s"}},
    "networkPolicy": {"networkPolicy": {"enabled": True}, "dashboard": {"enabled": True}},
    "monitoring": {"monitoring": {"enabled": True}},
    "monitoring.dashboards": {},
}


def leaves(schema: dict[str, Any], values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path of each value that users set, with its part of the schema and its default."""
    inner = schema.get("properties", {})
    for name, part in inner.items():
        here = (*path, name)
        if name in ("resources", "affinity") or not part.get("properties"):
            if here != ("global",):
                yield here, (part, values[name])
        else:
            yield from leaves(part, values[name], here)


def merged(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict):
        both = {key: merged(first[key], second[key]) for key in first.keys() & second.keys()}
        return first | second | both
    return second


def texts(value: Any) -> Iterator[str]:
    """Every scalar of a value."""
    if isinstance(value, dict | list):
        for each in value.items() if isinstance(value, dict) else value:
            yield from texts(list(each) if isinstance(each, tuple) else each)
    else:
        yield str(value)


SCHEMA = json.loads((CHART / "values.schema.json").read_text())
LEAVES = dict(leaves(SCHEMA, yaml.safe_load((CHART / "values.yaml").read_text())))


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_every_value_of_the_schema_reaches_an_object(path: tuple[str, ...]) -> None:
    schema, default = LEAVES[path]
    before: dict[str, Any] = {}
    for length in range(1, len(path) + 1):
        # What makes a part appear is not set for itself.
        if path != (*path[:length], "enabled"):
            before = merged(before, NEEDS.get(".".join(path[:length]), {}))
    value = own(schema, default, path)
    setting: Any = value
    for name in reversed(path):
        setting = {name: setting}
    without, with_it = rendered(**before), rendered(**merged(before, setting))
    assert with_it != without, "nothing became different"
    if not isinstance(value, bool):
        found = "\n".join(texts(list(with_it.values())))
        # Of a file its folder is mounted.
        wanted = [text.strip().removesuffix("/config.yaml") for text in texts(value)]
        assert [text for text in wanted if text not in found] == []
