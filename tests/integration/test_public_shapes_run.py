"""Each accepted shape of a public manifest runs, or `unisono explain` names why it does not, and that is so."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from support.shapes import ROOM, SHAPES, placed, run
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.cli.explaining import explain, explanation_lines
from unisono.jobkinds.paths import first, walk
from unisono.jobkinds.registry import job_kind_of
from unisono.kube.discovery import request_json
from unisono.standalone.background import SCHEDULER_NAMES

_SECONDS = 240
_LABELS: Final = frozenset(("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"))
Says = Callable[[dict[str, Any], re.Match[str]], bool]


def named(obj: dict[str, Any], text: str) -> bool:
    """Whether an object has these words."""
    return text in json.dumps(obj)


def _no_resource(obj: dict[str, Any], found: re.Match[str]) -> bool:
    return all(named(obj, f'"{each}"') and each not in ROOM for each in found[1].split(" or "))


def _no_label(obj: dict[str, Any], found: re.Match[str]) -> bool:
    return found[1] not in _LABELS and named(obj, found[1])


# What explanations say, and when that is so.
TRUE: Final[tuple[tuple[str, Says], ...]] = (
    (
        r"no running scheduler serves its schedulerName (\S+);",
        lambda o, m: named(o, m[1]) and m[1] not in SCHEDULER_NAMES,
    ),
    (r"no node offers ([^;(]+?)(?: \(|;)", _no_resource),
    (r"[Nn]o node has the label ([^=;.]+)", _no_label),
    (r"asks for the (?:label|topology key) (\S+), which no node has", _no_label),
    (r"is suspended: .* goes on when (\S+) is false", lambda o, m: first(o, m[1]) is True),
    (r"waits: (\S+) hands it to (\S+), and no controller", lambda o, m: first(o, m[1]) == m[2]),
    (r"has the scheduling gate (\S+)", lambda o, m: named(o, m[1])),
    (r"ResourceClaimTemplate (\S+), which does not exist", lambda o, m: named(o, f'Name": "{m[1]}"')),
    (r'serviceaccount "(\S+)" not found', lambda o, m: named(o, f'AccountName": "{m[1]}"')),
    (r"HyperNode (\S+) \(tier 1\) has no nodes", lambda o, m: m[1] in SHAPES_BY_NAME and named(o, "ighest")),
    (r"the PodGroup has no pods yet; (\d+) ", lambda o, m: o["spec"]["minMember"] == int(m[1])),
    (r"makes a job at the times of its schedule, (.+), the next", lambda o, m: o["spec"]["schedule"] == m[1]),
    (r"job template \S+/(\S+) is not there", lambda o, m: named(o, f'"name": "{m[1]}"')),
    (r"[Tt]here is no RayCluster (\S+), which", lambda o, m: named(o, f'"ray.io/cluster": "{m[1]}"')),
    (r"waits: (\S+) has no (\S+); the job begins", lambda o, m: m[2] not in first(o, m[1])),
    (r"waits: .*pvc (\S+) is not found", lambda o, m: named(o, f'ClaimName": "{m[1]}"')),
    (r'jdb-min-available\]: Invalid value: "(\w+)"', lambda o, m: named(o, f'"{m[1]}"')),
    (r"DeadlineExceeded", lambda o, _: any(True for _ in walk(o, "spec.tasks[*].template.spec.activeDeadlineSeconds"))),
)
SHAPES_BY_NAME = {shape["object"]["metadata"].get("name"): shape["object"] for shape in SHAPES}


def accepted() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Namespace, shape and object."""
    for number, shape in enumerate(SHAPES):
        if "refused" not in shape and not any("unknown field" in words for words in shape["warns"]):  # strict clients
            yield f"s{number}", shape, placed(shape["object"], f"s{number}")


def test_each_shape_runs_or_is_told_why_not(tmp_path: Path) -> None:
    wrong: list[str] = []
    checked: dict[str, int] = {"runs": 0, "explained": 0}

    async def story(made: Any) -> None:
        rows = list(accepted())
        for namespace, _, body in rows:
            await made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            await made.create(body)
        await asyncio.sleep(_SECONDS)
        phases: dict[str, set[str]] = {}
        for pod in (await request_json(made.client, "GET", "/api/v1/pods"))["items"]:
            phases.setdefault(pod["metadata"]["namespace"], set()).add(pod["status"].get("phase"))
        for namespace, shape, body in rows:
            known = job_kind_of(body)
            if known is None or not (known.runs or known.kind in (PODS, POD_GROUPS)):
                continue
            if phases.get(namespace, {"none"}) <= {"Running", "Succeeded"}:
                checked["runs"] += 1
                continue
            resource = made.resources.of(body["apiVersion"], body["kind"])
            (item,) = (await request_json(made.client, "GET", resource.path(namespace)))["items"]
            target = f"{resource.name}/{item['metadata']['name']}"
            said = explanation_lines(await explain(made.client, [target], namespace, search=False))[0]
            checked["explained"] += 1
            found = [(says, match) for pattern, says in TRUE if (match := re.search(pattern, said))]
            if not found or not all(says(body, match) for says, match in found):
                wrong.append(f"{shape['of']}: {said}")

    run(tmp_path, story)
    assert not wrong, "\n".join(wrong)
    assert checked["runs"] > 90, checked
    assert checked["explained"] > 50, checked
