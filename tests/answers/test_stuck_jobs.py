"""Situations in which jobs are stuck: the first line names the root cause, and every offered fix starts the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.answers import case, judge

# One of each kind, for every change; `more` runs them all.
QUICK = (
    "aborted-job",
    "affinity-gt-label-with-unit",
    "anti-affinity-own",
    "capability-and-taint",
    "claim-of-block-mode",
    "closed-child-then-parent",
    "configuration-without-allocate",
    "cordoned-gpu-nodes",
    "device-class-missing",
    "dra-class-typo-in-template",
    "dra-match-attribute-apart",
    "dra-template-missing",
    "dra-two-classes-never-on-one-node",
    "eval-role-for-arm",
    "fragmented-gpus-gang",
    "full-higher-priority",
    "gang-mpi",
    "gated-and-scheduler-dead",
    "gated-deployment",
    "gpu-mem-fragmented-cards",
    "gpu-typo-and-two-taints",
    "jobset-suspended-by-trainjob",
    "local-volume-on-full-node",
    "nodegroup-other-case",
    "numa-node-smaller-than-container",
    "podgroup-missing",
    "priorityclass-missing-batch",
    "pod-of-group-made-by-user",
    "pvc-not-found-pod",
    "pytorch-master-pool-in-use",
    "pytorch-minresources-disagree",
    "queue-closed",
    "queue-over-deserved",
    "queue-parent-capability",
    "queues-capability-and-quota",
    "queues-grandparent-binds",
    "queues-idle-guarantee",
    "queues-min-task-member",
    "queues-tdm-not-preemptable",
    "queues-user-limits",
    "queues-wrong-group-name",
    "quota-cpu-job",
    "quota-held-by-pods-that-never-start",
    "quota-services-pytorch",
    "ray-scheduler-name-kube-batch",
    "resource-typo",
    "rwop-claim-held-by-one-pod",
    "scheduler-killed-later",
    "serviceaccount-missing-job",
    "sidecar-makes-pod-too-large",
    "sts-class-parts-swapped",
    "sts-gang-annotation-above-replicas",
    "sts-old-pod-terminates",
    "sts-readiness-gate-of-first-pod",
    "suspended-and-queue-typo-batch",
    "suspended-namespace-rule",
    "topology-hard-cordoned",
    "topology-rack-busy",
    "trainjob-gpus-without-limits",
    "trainjob-runtime-typo",
    "two-roles-typo-and-taint",
    "two-siblings-guarantees",
    "typo-and-full",
    "vgpu-cores-used-up",
    "volume-of-deleted-claim",
    "workload-group-itself-queue-closed",
    "workload-group-too-large",
)


def _check(name: str, folder: Path) -> None:
    result = judge.judge(case.named(name), folder)
    told = "\n".join(result.lines)
    assert not result.unsound, f"the case is not sound: {result.unsound}"
    assert not result.lacking, f"the first line does not name {result.lacking}:\n{told}"
    assert not result.false, f"it says what is false ({result.false}):\n{told}"
    assert not result.missing, f"it does not offer {result.missing}:\n{told}"
    assert not result.fails, f"offered fixes do not start the job: {result.fails}\n{told}"


@pytest.mark.parametrize("name", QUICK)
def test_the_answer_is_right(name: str, tmp_path: Path) -> None:
    _check(name, tmp_path)


@pytest.mark.more
@pytest.mark.parametrize("name", sorted(set(case.names()) - set(QUICK)))
def test_every_answer_is_right(name: str, tmp_path: Path) -> None:
    _check(name, tmp_path)
