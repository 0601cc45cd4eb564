"""Kubernetes' own workloads on one machine: real processes, real kubectl, and a restart of everything in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.plane import RunningPlane

pytestmark = [pytest.mark.more, pytest.mark.kubectl, pytest.mark.processes]


def test_a_service_and_a_job_outlive_a_restart(start_plane: Callable[..., RunningPlane]) -> None:
    plane = start_plane()
    plane.kubectl("create", "deployment", "web", "--image=busybox", "--replicas=2", "--", "sleep", "1000")
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    plane.kubectl("create", "job", "hello", "--image=busybox", "--", "echo", "hi")
    plane.kubectl("wait", "job/hello", "--for=condition=complete", "--timeout=300s")
    assert plane.kubectl("logs", "job/hello").strip() == "hi"
    plane.stop()
    plane.start()
    plane.kubectl("scale", "deployment/web", "--replicas=3")
    plane.kubectl("wait", "deployment/web", "--for=jsonpath={.status.availableReplicas}=3", "--timeout=300s")
    assert plane.kubectl("get", "job", "hello", "-o", "jsonpath={.status.succeeded}") == "1"
