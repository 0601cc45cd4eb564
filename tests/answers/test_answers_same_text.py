"""One reason in every place that users look at: conditions and events of PodGroups and pods, and explain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.answers import case, judge

from unisono.cli.explaining import explanation_lines
from unisono.kube.discovery import request_json

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"

# Situation, and what each place has to name: the resource, label, claim, queue, quota or domain.
PLACES = [
    ("eval-role-for-arm", "kubernetes.io/arch=arm64"),
    ("quota-cpu-job", "requests.cpu"),
    ("topology-rack-too-small", "rack-a"),
    ("queue-capability", "cpu 8"),
    ("full-same-priority", "default/hog holds cpu 16"),
    ("full-deployment", "cpu"),
    ("pvc-not-found-pod", "scratch"),
    ("local-volume-on-full-node", "default/hog holds cpu 7"),
    ("workload-group-too-large", "cpu 24"),
]


async def _list(made: Any, path: str) -> Any:
    return await request_json(made.client, "GET", path)


async def _places(made: Any, question: str) -> dict[str, str]:
    """Text by the place where it stands, of what waits."""
    found = {"explain": explanation_lines(await made.explain(question))[0]}
    for group in (await _list(made, GROUPS))["items"]:
        for one in group.get("status", {}).get("conditions") or ():
            if one["type"] == "Unschedulable" and one["status"] == "True":
                found[f"condition of PodGroup {group['metadata']['name']}"] = one["message"]
    pods = (await _list(made, "/api/v1/namespaces/default/pods"))["items"]
    events = (await _list(made, "/api/v1/namespaces/default/events"))["items"]
    for pod in pods:
        if pod["spec"].get("nodeName"):
            continue
        name = pod["metadata"]["name"]
        told = [one for one in pod["status"].get("conditions") or () if one["type"] == "PodScheduled"]
        found[f"condition of pod {name}"] = told[0]["message"] if told else ""
        own = [
            one["message"]
            for one in events
            if one["involvedObject"]["name"] == name and one["reason"] == "FailedScheduling"
        ]
        if own:  # of a gang, two pods have one
            found[f"event of pod {name}"] = own[-1]
    return found


@pytest.mark.parametrize(("name", "named"), PLACES)
def test_every_place_names_the_cause(name: str, named: str, tmp_path: Path) -> None:
    places: dict[str, str] = {}

    async def work(made: Any) -> str:
        places.update(await _places(made, case.named(name).question))
        return ""

    assert judge.run(judge.stuck(case.named(name), tmp_path, work)) == ""
    assert len(places) > 1
    told = [any(place.startswith(f"{what} of pod") for place in places) for what in ("condition", "event")]
    assert told[0] == told[1]
    assert {place: text for place, text in places.items() if named not in text} == {}
