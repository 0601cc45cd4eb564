"""Kubeflow's training jobs and MPI jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from unisono.api.defaulting.kubeflow import TRAINING, elastic_limits, replica_specs, run_policy
from unisono.api.groups.kubeflow import AnyTrainingJob, MPIJobSpec, PyTorchJob, PyTorchJobSpec
from unisono.api.keys import KUBEFLOW_JOB_NAME, KUBEFLOW_REPLICA_TYPE, MPI_OPERATOR, TRAINING_OPERATOR
from unisono.api.kind_families import KUBEFLOW_KINDS, MPI_JOBS, PYTORCH_JOBS
from unisono.jobkinds.kind import NOTE, ElasticPart, JobKind, Json, PodSet, noted

LAUNCHER, WORKER = "Launcher", "Worker"
WAIT_FOR_WORKERS: Final = "WaitForWorkersReady"


def gang_size(job: AnyTrainingJob) -> int:
    """Pods that must run together: what ``minAvailable`` says, else the fewest with which the job goes on."""
    policy = run_policy(job.spec).scheduling_policy
    sets = list(pod_sets(job))
    if policy is None or policy.min_available is None:
        return sum(each.count if each.least is None else each.least for each in sets)
    later = sum(each.count for each in sets if each.later)
    return min(policy.min_available, sum(each.count for each in sets) - later) if later else policy.min_available


def pod_sets(job: AnyTrainingJob) -> Iterator[PodSet]:
    """Roles in the order in which they are looked at, each with its share of the smallest gang.

    A launcher that waits for its workers cannot be a member of their gang, and an elastic job needs its fewest workers.
    """
    policy = run_policy(job.spec).scheduling_policy
    waits = isinstance(job.spec, MPIJobSpec) and job.spec.launcher_creation_policy == WAIT_FOR_WORKERS
    elastic = job.spec.elastic_policy if isinstance(job.spec, PyTorchJobSpec) else None
    left = policy.min_available if policy is not None else None
    for name, role in replica_specs(job).items():
        count = max(0, role.replicas or 0)
        later = waits and name == LAUNCHER
        if later:
            least = 0
        elif left is not None:
            least = max(0, min(count, left))
            left -= least
        else:
            least = min(count, elastic_limits(elastic, count)[0]) if elastic is not None and name == WORKER else count
        yield PodSet(name.lower(), count, role.template.spec, least, later)


def _elastic(job: PyTorchJob) -> Iterator[ElasticPart]:
    """The workers of an elastic PyTorchJob; one with metrics follows these."""
    policy, worker = job.spec.elastic_policy, (job.spec.pytorch_replica_specs or {}).get(WORKER)
    suspended = bool(job.spec.run_policy and job.spec.run_policy.suspend)
    if policy is None or worker is None or policy.metrics or suspended:
        return
    replicas = 1 if worker.replicas is None else worker.replicas
    least, most = elastic_limits(policy, replicas)
    label = KUBEFLOW_REPLICA_TYPE, WORKER.lower()
    yield ElasticPart("", label, replicas, max(1, least), most, worker.template.spec)


def _grown(_: PyTorchJob, wanted: Mapping[str, int]) -> Json:
    return {"spec": {"pytorchReplicaSpecs": {WORKER: {"replicas": wanted[""]}}}}


def _fewer(manifest: Json, to: int) -> None:
    policy = manifest["spec"].setdefault("runPolicy", {}).setdefault("schedulingPolicy", {})
    policy["minAvailable"] = to
    policy.pop("minResources", None)


def _of(field: str) -> dict[str, Any]:
    template = f"spec.{field}.*.template"
    # The fields of a run policy may stand in the spec itself, too.
    policies = tuple(f"spec.{at}schedulingPolicy" for at in ("runPolicy.", ""))
    return {
        "templates": (template,),
        "queues": (*(f"{each}.queue" for each in policies), NOTE, *noted(template)),
        "priorities": (f"{policies[0]}.priorityClass",),
        "minimum": f"{policies[0]}.minResources",
        "replicas": f"spec.{field}.*.replicas",
    }


KUBEFLOW: tuple[JobKind, ...] = tuple(
    JobKind(
        kind,
        **_of(TRAINING[kind.struct].wire),
        elastic=_elastic if kind is PYTORCH_JOBS else None,
        grown=_grown if kind is PYTORCH_JOBS else None,
        pods=pod_sets,
        fewer=_fewer,
        control="flag",
        flag="spec.runPolicy.suspend",
        managed="spec.runPolicy.managedBy",
        managers=frozenset((TRAINING_OPERATOR, MPI_OPERATOR) if kind is MPI_JOBS else (TRAINING_OPERATOR,)),
        ends=True,
        pods_label=KUBEFLOW_JOB_NAME,
        part_label=KUBEFLOW_REPLICA_TYPE,
        fixed_names=True,
        group_name="{name}",
        fleet="whole",
    )
    for kind in KUBEFLOW_KINDS
)
