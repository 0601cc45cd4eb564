"""Devices that a manifest requests without the limit that they must have."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.sdk.fixes.pod_specs import unlimited


def _pod(**resources: dict[str, str]) -> dict[str, Any]:
    return {"kind": "Pod", "spec": {"containers": [{"name": "main", "resources": resources}]}}


def _train_job(**resources: dict[str, str]) -> dict[str, Any]:
    return {"kind": "TrainJob", "spec": {"trainer": {"resourcesPerNode": resources}}}


@pytest.mark.parametrize("made", [_pod, _train_job])
@pytest.mark.parametrize(
    ("requests", "limits", "found"),
    [
        ({"cpu": "1", "nvidia.com/gpu": "2"}, {}, ["nvidia.com/gpu"]),
        ({"hugepages-2Mi": "4Mi"}, {"cpu": "1"}, ["hugepages-2Mi"]),
        ({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "2"}, []),
        ({"cpu": "1", "memory": "1Gi"}, {}, []),
    ],
)
def test_devices_without_limits(made: Any, requests: dict[str, str], limits: dict[str, str], found: list[str]) -> None:
    assert unlimited(made(requests=requests, limits=limits)) == found
