"""Pods that should have gone and hold the names that their successors need."""

from __future__ import annotations

import pytest

from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodSpec
from unisono.sdk.state.bound_pods import has_fixed_names, overdue_text

DUE = "2026-01-01T00:00:00Z"
NOW = 1_767_225_600.0 + 60  # a minute after DUE


def _pod(*, due: str | None = DUE, finalizers: list[str] | None = None) -> Pod:
    meta = ObjectMeta(name="db-0", namespace="ns", deletion_timestamp=due, finalizers=finalizers)
    return Pod(metadata=meta, spec=PodSpec(containers=[], node_name="n-1"))


@pytest.mark.parametrize(
    ("pods", "now", "expected"),
    [
        ([], NOW, []),
        ([_pod(due=None)], NOW, []),
        ([_pod()], NOW - 120, []),  # within its grace period
        ([_pod()], NOW, ["pod db-0 is being deleted", "n-1 has not confirmed"]),
        ([_pod(finalizers=["example.com/backup"])], NOW, ["pod db-0 is being deleted", "example.com/backup"]),
        ([_pod(due=None), _pod(finalizers=["a/b", "c/d"])], NOW, ["a/b, c/d"]),
    ],
)
def test_what_holds_a_pod_is_named_once_it_is_overdue(pods: list[Pod], now: float, expected: list[str]) -> None:
    text = overdue_text(pods, now)
    assert bool(text) == bool(expected)
    assert all(part in text for part in expected)


@pytest.mark.parametrize(
    ("api_version", "kind", "fixed"),
    [
        ("batch.volcano.sh/v1alpha1", "Job", True),
        ("batch.volcano.sh/v1beta1", "Job", True),
        ("batch/v1", "Job", False),  # its pods get random names
        ("apps/v1", "StatefulSet", True),
        ("apps/v1", "Deployment", False),
        ("kubeflow.org/v1", "JAXJob", True),
        ("kubeflow.org/v2beta1", "MPIJob", True),
        ("example.com/v1", "PyTorchJob", False),
        ("", "", False),
    ],
)
def test_which_pods_have_names_of_their_own(api_version: str, kind: str, fixed: bool) -> None:
    assert has_fixed_names({"apiVersion": api_version, "kind": kind}) is fixed
