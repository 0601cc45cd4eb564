"""Which PodGroup a pod belongs to: one answer for every room."""

from __future__ import annotations

import msgspec
import pytest

from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.selecting import pod_group_of, queue_of

KUBERNETES, VOLCANO = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"


@pytest.mark.parametrize(
    ("annotations", "group"),
    [
        (None, ""),
        ({}, ""),
        ({KUBERNETES: "a"}, "ns/a"),
        ({VOLCANO: "b"}, "ns/b"),
        ({KUBERNETES: "a", VOLCANO: "b"}, "ns/a"),
        ({KUBERNETES: "", VOLCANO: "b"}, "ns/b"),
    ],
)
def test_the_pod_group_of_a_pod(annotations: dict[str, str] | None, group: str) -> None:
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "annotations": annotations}}, Pod)
    assert pod_group_of(pod) == group


@pytest.mark.parametrize(("spec", "queue"), [({}, "default"), ({"queue": ""}, "default"), ({"queue": "q"}, "q")])
def test_the_queue_of_a_pod_group(spec: dict[str, str], queue: str) -> None:
    assert queue_of(msgspec.convert({"metadata": {"name": "g"}, "spec": spec}, PodGroup)) == queue
