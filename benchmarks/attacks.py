"""``python -m benchmarks.attacks [--only NAME ...] [--write]``: how long one request keeps others waiting.

A server of its own gets one hostile but valid request after another, while a second client reads a small object all the
time. What is told of each attack is the longest time that one of those reads took, the median of three attacks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import report
from benchmarks.api.load import checked
from benchmarks.api.serving import Server, api_alone
from unisono.kube.http import HttpClient
from unisono.kube.listening import raise_open_files

_ROUNDS = 3
_MAPS = "/api/v1/namespaces/default/configmaps"
_PODS = "/api/v1/namespaces/default/pods"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
_HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_WIDGETS = "/apis/attack.example.com/v1/namespaces/default/widgets"
_CHEAP = f"{_MAPS}/cheap"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A request."""

    method: str
    path: str
    body: bytes | None = None
    media: str = "application/json"


@dataclass(frozen=True, slots=True)
class Attack:
    """What is sent before, in each round, and after it."""

    calls: Callable[[int], list[Call]]
    before: list[Call] = field(default_factory=list)
    after: Callable[[int], list[Call]] = lambda _: []


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _map(name: str, data: Document | None = None, **metadata: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


def _crd(plural: str, schema: Document, group: str = "attack.example.com") -> bytes:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return _json(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": plural.capitalize()},
                "versions": [version],
            },
        }
    )


def _pod(containers: int) -> Document:
    spec = {"containers": [{"name": f"c{n}", "image": "i"} for n in range(containers)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "many"}, "spec": spec}


def _table() -> dict[str, Attack]:
    properties = {f"property{n}": {"type": "string"} for n in range(40_000)}
    wide = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    free = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    fields = {f"field{n}": f"value{n}" for n in range(40_000)}
    keys = {f"k{n}": "v" for n in range(50_000)}
    widget = {"apiVersion": "attack.example.com/v1", "kind": "Widgets", "metadata": {"name": "w"}, "spec": fields}
    free_crd = [Call("POST", _CRDS, _crd("widgets", free))]
    yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n" + "".join(f"  {k}: v\n" for k in keys)
    containers = 5_000
    merge = {"spec": {"containers": [{"name": f"c{n}", "image": "j"} for n in range(containers)][::-1]}}
    order = {"spec": {"$setElementOrder/containers": [{"name": f"c{n}"} for n in range(containers)][::-1]}}
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{n}", "uid": f"u{n}"} for n in range(9_000)]
    entry = {"apiVersion": "v1", "fieldsType": "FieldsV1", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}}
    managed = [{**entry, "manager": f"manager{n}"} for n in range(9_000)]
    finalizers = [f"example.com/f{n}" for n in range(40_000)]
    half = dict(list(keys.items())[:40_000])
    large = [Call("POST", _MAPS, _json(_map("large", half)))]
    one_owner = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "large", "uid": f"u{n}"} for n in range(9_000)]
    blocking = [
        {"apiVersion": "v1", "kind": "Node", "name": f"o{n}", "uid": f"u{n}", "blockOwnerDeletion": True}
        for n in range(9_000)
    ]
    policy = {"event": "PodFailed", "action": "RestartJob", "timeout": "1" * 1_000_000}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "long"},
        "spec": {"minAvailable": 1, "tasks": [{"name": "a", "template": _pod(1)}], "policies": [policy]},
    }
    ones = "[" + ", ".join(["1"] * 500) + "]"
    cel = f"{ones}.all(a, {ones}.all(b, a == b))"
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
        "webhooks": [
            {
                "name": "slow.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Ignore",
                "matchConditions": [{"name": f"slow{n}", "expression": cel} for n in range(20)],
            }
        ],
    }

    def gone(path: str) -> Callable[[int], list[Call]]:
        return lambda _: [Call("DELETE", path)]

    def posted(path: str, body: bytes, media: str = "application/json") -> Callable[[int], list[Call]]:
        return lambda _: [Call("POST", path, body, media)]

    def wide_crd(number: int) -> list[Call]:
        return [Call("POST", _CRDS, _crd(f"wide{number}", wide, "wide.example.com"))]

    def wide_gone(number: int) -> list[Call]:
        return [Call("DELETE", f"{_CRDS}/wide{number}.wide.example.com")]

    def patched(path: str, body: Document, media: str) -> Callable[[int], list[Call]]:
        return lambda _: [Call("PATCH", path, _json(body), media)]

    return {
        "a definition of 40,000 properties": Attack(wide_crd, after=wide_gone),
        "YAML of 50,000 keys": Attack(posted(_MAPS, yaml.encode(), "application/yaml"), after=gone(f"{_MAPS}/m")),
        "JSON of 50,000 keys": Attack(posted(_MAPS, _json(_map("m", keys))), after=gone(f"{_MAPS}/m")),
        "a custom object of 40,000 fields": Attack(
            posted(_WIDGETS, _json(widget)), before=free_crd, after=gone(f"{_WIDGETS}/w")
        ),
        "an applied object of 15,000 keys": Attack(
            lambda _: [
                Call("PATCH", f"{_MAPS}/m?fieldManager=a", _json(_map("m", dict(list(keys.items())[:15_000]))), _APPLY),
                Call("PATCH", f"{_MAPS}/m?fieldManager=b", _json(_map("m", dict(list(keys.items())[:15_000]))), _APPLY),
            ],
            after=gone(f"{_MAPS}/m"),
        ),
        "a strategic patch of 5,000 list items": Attack(
            patched(f"{_PODS}/many", merge, _STRATEGIC), before=[Call("POST", _PODS, _json(_pod(containers)))]
        ),
        "a strategic patch that orders 5,000 items": Attack(patched(f"{_PODS}/many", order, _STRATEGIC)),
        "9,000 owners of an object": Attack(
            posted(_MAPS, _json(_map("m", ownerReferences=owners))), after=gone(f"{_MAPS}/m")
        ),
        "9,000 references to one owner of 1 MB": Attack(
            posted(_MAPS, _json(_map("m", ownerReferences=one_owner))), before=large, after=gone(f"{_MAPS}/m")
        ),
        "9,000 owners whose deletion is blocked": Attack(
            posted(_MAPS, _json(_map("m", ownerReferences=blocking))), after=gone(f"{_MAPS}/m")
        ),
        "a duration of 1,000,000 digits": Attack(posted(_JOBS, _json(job)), after=gone(f"{_JOBS}/long")),
        "a small patch of 1 MB": Attack(patched(f"{_MAPS}/large", {"data": {"k0": "w"}}, _MERGE), before=large),
        "a small configuration applied to 1 MB": Attack(
            patched(f"{_MAPS}/large?fieldManager=b&force=true", _map("large", {"k1": "w"}), _APPLY), before=large
        ),
        "a deletion of 1 MB": Attack(
            lambda _: [Call("POST", _MAPS, _json(_map("m", half))), Call("DELETE", f"{_MAPS}/m")]
        ),
        "the first OpenAPI documents": Attack(lambda _: [Call("GET", "/openapi/v3"), Call("GET", "/openapi/v2")]),
        "9,000 managers of fields": Attack(
            lambda _: [
                Call("POST", _MAPS, _json(_map("m", managedFields=managed))),
                Call("PATCH", f"{_MAPS}/m?fieldManager=z", _json(_map("m", {"b": "c"})), _APPLY),
            ],
            after=gone(f"{_MAPS}/m"),
        ),
        "40,000 finalizers": Attack(posted(_MAPS, _json(_map("m", finalizers=finalizers))), after=gone(f"{_MAPS}/m")),
        "a webhook's condition of 250,000 steps": Attack(
            posted(_MAPS, _json(_map("m"))), before=[Call("POST", _HOOKS, _json(hook))], after=gone(f"{_MAPS}/m")
        ),
    }


async def _probe(client: HttpClient, waits: list[float]) -> None:
    while True:
        sent = time.perf_counter()
        await checked(client, "GET", _CHEAP)
        waits.append(time.perf_counter() - sent)
        await asyncio.sleep(0.001)


async def _send(client: HttpClient, calls: list[Call]) -> list[int]:
    codes = []
    for call in calls:
        status, _, _ = await client.request(call.method, call.path, body=call.body, content_type=call.media)
        codes.append(status)
    return codes


async def _measured(server: Server, prober: HttpClient, attack: Attack) -> tuple[float, list[int]]:
    await _send(server.client, attack.before)
    longest, codes = [], []
    for number in range(_ROUNDS):
        waits: list[float] = []
        calls = attack.calls(number)
        probe = asyncio.create_task(_probe(prober, waits))
        try:
            await asyncio.sleep(0.1)
            codes = await _send(server.client, calls)
            await asyncio.sleep(0.5)  # what the server does after its answer counts as well
        finally:
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)
        longest.append(max(waits))
        await _send(server.client, attack.after(number))
        await asyncio.sleep(0.3)
    return median(longest), codes


async def _measure(names: list[str]) -> list[tuple[str, str, str]]:
    found = []
    with tempfile.TemporaryDirectory(prefix="unisono-attacks-") as folder:
        async with api_alone(Path(folder)) as server:
            prober = HttpClient(server.client.config)
            try:
                await checked(server.client, "POST", _MAPS, body=_json(_map("cheap")))
                table = {"nothing": Attack(lambda _: [])} | _table()
                for name, attack in table.items():
                    if names and name not in names:
                        continue
                    seconds, codes = await _measured(server, prober, attack)
                    answered = ", ".join(dict.fromkeys(map(str, codes))) or "none"
                    found.append((name, answered, f"{seconds * 1000:.0f} ms"))
                    print(*found[-1], sep=" | ", flush=True)
            finally:
                await prober.close()
    return found


def _lines(found: list[tuple[str, str, str]]) -> Iterator[str]:
    yield "| attack | answer | longest wait of another client's read |"
    yield "|---|---|---|"
    for row in found:
        yield "| " + " | ".join(row) + " |"


def main() -> int:
    """Measure, print, and on wish put the table into docs/performance.md."""
    parser = argparse.ArgumentParser(prog="benchmarks.attacks", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="measure these attacks (all by default)")
    parser.add_argument("--write", action="store_true", help="put the results into docs/performance.md")
    options = parser.parse_args()
    raise_open_files()
    found = asyncio.run(_measure(options.only))
    if options.write:
        report.PAGE.write_text(report.put(report.PAGE.read_text(), "attacks", "\n".join(_lines(found))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
