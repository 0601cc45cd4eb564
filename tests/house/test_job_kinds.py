"""What a kind of job means is said in ``unisono.jobkinds``; other rooms ask it."""

from __future__ import annotations

import ast
from pathlib import Path

import unisono
from unisono.api.annotations import SUBMITTED
from unisono.api.kind_families import CLUSTER_TRAINING_RUNTIMES, JOB_TEMPLATES, TRAINING_RUNTIMES
from unisono.jobkinds.registry import FAMILIES

SOURCES = Path(unisono.__file__).parent
KEYS = {"POD_QUEUE", "QUEUE_NAME"}
# What they do with the keys, and that is no reading of an object's queue.
USERS = {
    "api/seal.py": "what of a Job the webhook has seen",
    "apiserver/admission/cluster.py": "the queue of a namespace",
    "cli/commands/pod.py": "options",
    "cli/running/submitting.py": "texts of any manifest",
    "controllers/job/pods.py": "what pods are told",
    "controllers/podgroup/controller.py": "the queue of a namespace",
    "controllers/podgroup/decide.py": "the queue of a plain pod",
    "cli/migrate/kai.py": "what jobs of another scheduler get",
    "cli/migrate/written.py": "the queue of a namespace",
    "controllers/podgroup/kubernetes.py": "a group's, before its pods', and a namespace's",
    "controllers/training/jobset/pods.py": "what pods are told",
    "controllers/training/kubeflow/framework.py": "what pods are told",
    "controllers/training/ray/pods.py": "what pods are told",
}


def imported(path: Path) -> set[str]:
    """Names that a module takes from others, if any of the keys stands in it."""
    source = path.read_text()
    if not any(key in source for key in KEYS):
        return set()
    nodes = list(ast.walk(ast.parse(source)))
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return attributes | {each.name for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names}


def test_who_submits_is_written_down_for_whatever_becomes_a_pod_group() -> None:
    made_by_us = {each.kind for name in ("volcano", "kubeflow", "jobset", "ray") for each in FAMILIES[name]}
    templates = {JOB_TEMPLATES, TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES}
    assert set(SUBMITTED) == made_by_us - templates


def test_no_other_room_reads_the_queue_of_a_kind() -> None:
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if path.parent.name != "jobkinds" and KEYS & imported(path)
    }
    assert found == USERS.keys()
