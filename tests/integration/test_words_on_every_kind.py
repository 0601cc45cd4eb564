"""Where honoured words arrive, seen on a whole control plane with simulated nodes."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

from support.words_drawn import Drawn, drawn
from unisono.api import keys
from unisono.jobkinds.registry import FOREIGN
from unisono.jobkinds.word_places import READ_AT, arrives
from unisono.kube.discovery import request_json

sys.path.append(str(Path(__file__).parents[2]))
case: Any = import_module("benchmarks.answers.case")
plane: Any = import_module("benchmarks.answers.plane")
virtual: Any = import_module("unisono.standalone.shadow")

# Seen by what they do and not by where they stand; a name of a group that is not there holds pods back.
_UNSEEN = {keys.GROUP_NAME, keys.GROUP_NAME_OF_VOLCANO, keys.GROUP_MIN_MEMBER, keys.EXCLUSIVE_TOPOLOGY}
_BOUNDS = {
    keys.NETWORK_TOPOLOGY_MODE,
    keys.NETWORK_TOPOLOGY_HIGHEST_TIER,
    keys.NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED,
    keys.RAY_PRIORITY_CLASS,
}
_NODES = [{"name": f"n{number}", "capacity": {"cpu": "64", "memory": "256Gi", "pods": "500"}} for number in range(4)]


def seen(key: str, pods: list[Any], groups: list[Any]) -> bool:
    """Whether a word stands where it is read."""
    goals = READ_AT[key]
    on = {
        "pod": (pods, "annotations"),
        "pod label": (pods, "labels"),
        "group": (groups, "annotations"),
    }
    return any(
        key in (each["metadata"].get(part) or {})
        for goal in goals & on.keys()
        for each in on[goal][0]
        for part in (on[goal][1],)
    )


def test_each_word_arrives_where_the_table_says(tmp_path: Path) -> None:
    rows: dict[str, Drawn] = {}
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: {"pods": [], "podgroups": []})

    async def story() -> None:
        given = case.Case("words", "", "namespace/default", [], [], [], _NODES, "", [], [], [], 0, 0.0)
        async with plane.plane(given, tmp_path, plane.unadvised) as made:
            for number, it in enumerate(each for each in drawn() if each.kind not in FOREIGN):
                it = it._replace(words=it.words - _UNSEEN)
                rows[f"n{number}"] = it
                await made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{number}"}})
                await made.create(it.body(f"n{number}"))
            await asyncio.sleep(240)
            for path in ("/api/v1/pods", "/apis/scheduling.volcano.sh/v1beta1/podgroups"):
                for each in (await request_json(made.client, "GET", path))["items"]:
                    found[each["metadata"]["namespace"]][path.rpartition("/")[2]].append(each)

    with asyncio.Runner(loop_factory=virtual.VirtualLoop) as runner:
        runner.run(story())
    wrong, checked = [], 0
    for namespace, it in rows.items():
        pods, groups = found[namespace]["pods"], found[namespace]["podgroups"]
        if not pods:
            continue  # templates, and groups without pods
        checked += 1
        wrong += [
            (it.name, key)
            for key in it.words - _BOUNDS
            if arrives(it.kind, it.above, it.part, key) != seen(key, pods, groups)
        ]
        bound = any(arrives(it.kind, it.above, it.part, key) for key in _BOUNDS & it.words)
        if bound != any(group["spec"].get("networkTopology") for group in groups):
            wrong.append((it.name, "network topology"))
    assert not wrong, "\n".join(map(str, wrong))
    assert checked > 90
