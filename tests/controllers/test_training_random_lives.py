"""Random lives of training jobs: what pods do, what users do, and what the API server refuses, at any write."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_training_ray import cluster, ray_job, ray_object, ray_spec, workers
from training_world import TrainingWorld, manifest, pytorch, roles, template
from unreliable import Fault, Faults, every_write_once, some_writes

from support.examples import examples
from unisono.api.kind_families import JOB_SETS, RAY_CLUSTERS
from unisono.api.kinds import POD_GROUPS, PODS, SERVICES

MAKERS = (PODS, SERVICES, POD_GROUPS, JOB_SETS, RAY_CLUSTERS)


@dataclass(frozen=True)
class Kind:
    """A kind of job in these lives.

    Attributes:
        value: the manifest.
        suspended: what suspends it; None where nothing does.
        resumed: what lets it go on.
        changes: what a user may change while it lives.
        ends: conditions, or phases of a RayJob, that are final; empty for what serves until it is deleted.

    """

    value: dict[str, Any]
    suspended: dict[str, Any] | None = None
    resumed: dict[str, Any] = field(default_factory=dict)
    changes: tuple[dict[str, Any], ...] = ()
    ends: frozenset[str] = frozenset()


def training(value: dict[str, Any], *changes: dict[str, Any]) -> Kind:
    ends = frozenset({"Succeeded", "Failed"})
    return Kind(value, {"runPolicy": {"suspend": True}}, {"runPolicy": {"suspend": False}}, changes, ends)


def with_suspend(value: dict[str, Any], *changes: dict[str, Any], ends: tuple[str, ...] = ()) -> Kind:
    return Kind(value, {"suspend": True}, {"suspend": False}, changes, frozenset(ends))


def train_job() -> dict[str, Any]:
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "image": "i", "command": ["x"]}}
    return manifest("TrainJob", api_version="trainer.kubeflow.org/v1alpha1", **spec)


def job_set(action: str = "") -> dict[str, Any]:
    jobs = [{"name": "w", "replicas": 2, "template": {"spec": {"template": template()}}}]
    rules = {"rules": [{"name": "first", "action": action}]} if action else {}
    spec = {"failurePolicy": {"maxRestarts": 1, **rules}, "replicatedJobs": jobs}
    return manifest("JobSet", api_version="jobset.x-k8s.io/v1alpha2", **spec)


def mpi_job(version: str) -> dict[str, Any]:
    specs = roles("mpi", Launcher=(1, "OnFailure"), Worker=(2, "Never"))
    policy = {"backoffLimit": 1, "cleanPodPolicy": "Running"}
    return manifest("MPIJob", api_version=f"kubeflow.org/{version}", runPolicy=policy, mpiReplicaSpecs=specs)


def replicas(kind: str, field: str, container: str, **counts: Any) -> dict[str, Any]:
    """A job of one of Kubeflow's kinds that starts over after a failure, a few times, and leaves nothing behind."""
    policy = {"backoffLimit": 3, "cleanPodPolicy": "All"}
    return manifest(kind, runPolicy=policy, **{field: roles(container, **counts)})


def elastic() -> dict[str, Any]:
    return pytorch((2, "OnFailure"), 0, elasticPolicy={"minReplicas": 1, "maxReplicas": 4})


def sized(count: int, field: str = "pytorchReplicaSpecs") -> dict[str, Any]:
    return {field: {"Worker": {"replicas": count}}}


RAY_SERVICE = {
    "serveConfigV2": "applications: [{name: a, import_path: 'a:b'}]",
    "rayClusterConfig": ray_spec(workers(1)),
}
KINDS = {
    "PyTorchJob": training(pytorch((2, "ExitCode"), runPolicy={"backoffLimit": 2, "cleanPodPolicy": "All"}), sized(1)),
    "elastic": training(elastic(), sized(4), sized(1)),
    "TFJob": training(
        replicas("TFJob", "tfReplicaSpecs", "tensorflow", PS=(1, "OnFailure"), Worker=(2, "ExitCode")),
        sized(1, "tfReplicaSpecs"),
        sized(3, "tfReplicaSpecs"),
    ),
    "TFJob with a chief": training(
        replicas("TFJob", "tfReplicaSpecs", "tensorflow", Chief=(1, "ExitCode"), Worker=(1, "Always"))
    ),
    "XGBoostJob": training(
        replicas("XGBoostJob", "xgbReplicaSpecs", "xgboost", Master=(1, "OnFailure"), Worker=(2, "ExitCode")),
        sized(1, "xgbReplicaSpecs"),
    ),
    "PaddleJob": training(
        replicas("PaddleJob", "paddleReplicaSpecs", "paddle", Master=(1, "Never"), Worker=(2, "OnFailure")),
        sized(3, "paddleReplicaSpecs"),
    ),
    "JAXJob": training(
        replicas("JAXJob", "jaxReplicaSpecs", "jax", Worker=(2, "ExitCode")), sized(1, "jaxReplicaSpecs")
    ),
    "MPIJob v1": training(mpi_job("v1")),
    "MPIJob v2beta1": training(mpi_job("v2beta1")),
    "JobSet": with_suspend(job_set(), ends=("Completed", "Failed")),
    "JobSet that fails": with_suspend(job_set("FailJobSet"), ends=("Completed", "Failed")),
    "JobSet of which jobs restart": with_suspend(job_set("RestartJob"), ends=("Completed", "Failed")),
    "TrainJob": with_suspend(train_job(), ends=("Complete", "Failed")),
    "RayCluster": with_suspend(
        cluster(workers(2)), {"workerGroupSpecs": [workers(1)]}, {"workerGroupSpecs": [workers(3)]}
    ),
    "RayJob": with_suspend(
        ray_job(backoffLimit=1, shutdownAfterJobFinishes=True), ends=("Complete", "Failed", "ValidationFailed")
    ),
    "RayService": Kind(
        ray_object("RayService", RAY_SERVICE),
        changes=({"rayClusterConfig": {"rayVersion": "2"}}, {"rayClusterConfig": {"workerGroupSpecs": [workers(2)]}}),
    ),
}
# Where the state of a job of Kubeflow's may go from each; an end is one for good.
EDGES = {
    "": {"Created", "Suspended"},
    "Created": {"Running", "Restarting", "Suspended", "Succeeded", "Failed"},
    "Running": {"Restarting", "Suspended", "Succeeded", "Failed"},
    "Restarting": {"Running", "Suspended", "Succeeded", "Failed"},
    "Suspended": {"Running", "Restarting", "Succeeded", "Failed"},
    "Succeeded": set(),
    "Failed": set(),
}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 4), st.sampled_from(["Running", "Succeeded", "Failed"]),
                  st.sampled_from([1, 137])),
        st.tuples(st.just("all"), st.sampled_from(["Running", "Succeeded"])),
        st.tuples(st.just("evict"), st.integers(0, 4)),
        st.tuples(st.just("gone")),
        st.tuples(st.just("suspend"), st.booleans()),
        st.tuples(st.just("change"), st.integers(0, 1)),
        st.tuples(st.just("wait"), st.sampled_from([1, 30, 700])),
        st.tuples(st.just("admit")),
        st.tuples(st.just("restart")),
        st.tuples(st.just("faults"), st.integers(0, 6), st.sampled_from(list(Fault))),
    ),
    min_size=2,
    max_size=14,
)  # fmt: skip

RUN_POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "cleanPodPolicy": st.sampled_from(["None", "Running", "All"]),
        "backoffLimit": st.sampled_from([0, 2]),
        "activeDeadlineSeconds": st.just(60),
    },
)


class Life:
    """One job, its controllers, and everybody who acts on it."""

    def __init__(self, world: TrainingWorld, kind: Kind) -> None:
        self.world, self.kind, self.suspended = world, kind, False
        self.restarts = 0

    def living(self) -> list[Any]:
        pods = self.world.pods(deleting=False)
        return [pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]

    async def admit(self) -> None:
        for group in self.world.client.objects(POD_GROUPS):
            if (group.status.phase or "Pending") == "Pending":
                await self.world.set_group_phase(group, "Inqueue")

    async def play(self, step: tuple[Any, ...]) -> None:
        world, living = self.world, self.living()
        match step:
            case ("pod", number, phase, code) if number < len(living):
                world.set_pod(living[number], phase, 0 if phase == "Succeeded" else code)
            case ("all", phase):
                for pod in living:
                    world.set_pod(pod, phase)
            case ("evict", number) if number < len(living):
                await world.evict(living[number].metadata.name)
            case ("gone",):
                await world.finish_deletions()
            case ("suspend", value) if self.kind.suspended is not None:
                await world.change(**(self.kind.suspended if value else self.kind.resumed))
                self.suspended = value
            case ("change", number) if number < len(self.kind.changes):
                await world.change(**self.kind.changes[number])
            case ("wait", seconds):
                await world.advance(seconds)
            case ("admit",):
                await self.admit()
            case ("restart",):
                await world.restart()
            case ("faults", count, fault):
                world.client.faults = some_writes(count, fault)
        await world.settle()
        world.client.collect_garbage()
        await world.settle()

    async def rest(self) -> None:
        """All is well again: nothing is refused, what was deleted is gone, and time passes."""
        self.world.client.faults = None
        for _ in range(8):
            await self.world.finish_deletions()
            self.world.client.collect_garbage()
            await self.admit()
            await self.world.advance(200)

    def ended(self) -> str:
        status = self.world.job.status
        phase = getattr(status, "job_deployment_status", None)
        if hasattr(status, "job_deployment_status"):
            return phase if phase in self.kind.ends else ""
        found = self.world.holding() & self.kind.ends
        assert len(found) <= 1, "it ends in one way"
        return next(iter(found), "")

    def pods_of(self) -> set[str]:
        return {pod.metadata.uid for pod in self.world.pods()}

    def path(self) -> list[str]:
        """What the column State has shown, one after the other; a suspension that is over is no state."""
        plural = self.world.kind.plural
        states = [""]
        for write, _uid in self.world.client.applied:
            if (write.resource, write.subresource) == (plural, "status") and write.body["status"].get("conditions"):
                states += [each["type"] for each in write.body["status"]["conditions"][-1:] if each["status"] == "True"]
        return [state for state, _ in itertools.groupby(states)]


def check(life: Life) -> None:
    """What holds at every moment."""
    world = life.world
    uids = {obj.metadata.uid for kind in MAKERS for obj in world.client.objects(kind)} | {world.job.metadata.uid}
    for pod in world.pods(deleting=False):
        assert {owner.uid for owner in pod.metadata.owner_references} <= uids, "no pod without its owner"
    types = [each.type for each in getattr(world.job.status, "conditions", None) or ()]
    assert len(types) == len(set(types))
    # Two pods of one place never live at the same time: they have the same host name.
    places = [pod.spec.hostname for pod in life.living() if pod.spec.hostname]
    assert len(places) == len(set(places))
    if world.kind.group == "kubeflow.org":
        for before, after in itertools.pairwise(life.path()):
            assert after in EDGES[before], life.path()
        check_conditions(life, types)
    if world.kind.kind == "JobSet":
        status = world.job.status
        towards_max = (status.restarts_count_towards_max or 0) + sum(
            sum(each.job_restarts_count_towards_max or ()) for each in status.replicated_jobs_status or ()
        )
        assert towards_max <= 1
        assert (status.restarts or 0) >= life.restarts
        life.restarts = status.restarts or 0


def check_conditions(life: Life, types: list[str]) -> None:
    """What conditions of Kubeflow's jobs say at every moment, and what goes with it."""
    world, status, holding = life.world, life.world.job.status, life.world.holding()
    assert not {"Running", "Restarting"} <= holding
    told = [each for each in status.conditions or () if each.type in EDGES]
    assert all(each.message and each.reason.startswith(type(world.job).__name__) for each in told)
    if life.ended():
        assert types[-1] in life.kind.ends, "the end is what the column State shows"
        assert "Running" not in holding
        assert status.completion_time
    else:
        assert not status.completion_time


def check_counts(life: Life) -> None:
    """What holds when nobody does anything any more: a job that goes on tells of its pods as they are."""
    world = life.world
    if world.kind.group != "kubeflow.org" or life.ended() or life.suspended:
        return
    counted, there = Counter[str](), Counter[str]()
    for each in (world.job.status.replica_statuses or {}).values():
        counted += Counter(active=each.active or 0, succeeded=each.succeeded or 0, failed=each.failed or 0)
    words = {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
    for pod in world.pods():
        if pod.status.phase in words:
            there[words[pod.status.phase]] += 1
    assert counted == there


@pytest.mark.more
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
@given(script=STEPS, run=RUN_POLICIES, restart=st.sampled_from(["", "Never", "OnFailure", "Always", "ExitCode"]))
def test_whatever_happens(name, script, run, restart):
    kind = KINDS[name]
    asyncio.run(_live(replace(kind, value=drawn(kind.value, run, restart)), script))


def drawn(value: dict[str, Any], run: dict[str, Any], restart: str) -> dict[str, Any]:
    """A job of Kubeflow's with other policies for its end and its pods; others, and MPI's, stay as they are."""
    value = json.loads(json.dumps(value))
    if value["apiVersion"] == "kubeflow.org/v1" and value["kind"] != "MPIJob":
        value["spec"].setdefault("runPolicy", {}).update(run)
        for name, roles_ in value["spec"].items():
            for role in roles_.values() if name.endswith("ReplicaSpecs") and restart else ():
                role["restartPolicy"] = restart
    return value


async def _live(kind: Kind, script: list[tuple[Any, ...]]) -> None:
    async with TrainingWorld() as world:
        await world.submit(json.loads(json.dumps(kind.value)))
        life = Life(world, kind)
        for step in script:
            end, known = life.ended(), life.pods_of()
            await life.play(step)
            check(life)
            if end:
                assert life.ended() == end, "an end is final"
                assert kind.value["kind"] == "RayJob" or life.pods_of() <= known, "nothing is made again after the end"
        await life.rest()
        check(life)
        check_counts(life)
        end = life.ended()
        if life.suspended and not end:
            assert world.pods() == [], "a suspended job holds nothing"
            assert world.client.objects(POD_GROUPS) == []
        if end:
            assert world.client.objects(POD_GROUPS) == [], "a gang that has ended waits for nothing"
        if end and kind.value["kind"] == "RayJob":
            assert world.client.objects(RAY_CLUSTERS) == [], "its cluster goes with it"
        await quiet(world)
        world.client.remove(world.kind, f"ns/{world.name}")
        await life.rest()
        for each in MAKERS:
            assert world.client.objects(each) == [], "everything goes with the job"


async def quiet(world: TrainingWorld) -> None:
    """Controllers that start again find all as it should be: they try to make what is there, and change nothing."""
    before = len(world.client.writes)
    await world.restart()
    changed = [write for write in world.client.writes[before:] if write.operation != "create"]
    assert [write for write in changed if write.resource != "events"] == []


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("name", KINDS)
def test_every_write_may_fail_once(name, fault):
    assert asyncio.run(_story(KINDS[name], every_write_once(fault))) == asyncio.run(_story(KINDS[name], None))


async def _story(kind: Kind, faults: Faults | None) -> tuple[Any, ...]:
    """A job that runs, loses a pod, runs again and succeeds; answers what it was like on its way."""
    async with TrainingWorld() as world:
        life, seen = Life(world, kind), []
        world.client.faults = faults
        await world.submit(json.loads(json.dumps(kind.value)), admit=False)
        for act in (None, "Running", "lose", "Running", "Succeeded", None):
            living = sorted(life.living(), key=_role)
            if act == "lose" and living:
                world.set_pod(living[-1], "Failed", 137)
            elif act:
                for pod in living:
                    world.set_pod(pod, act)
            for _ in range(4):
                await world.finish_deletions()
                world.client.collect_garbage()
                await life.admit()
                await world.advance(120)
            seen.append((_conditions(world), sorted((_role(pod), pod.status.phase or "") for pod in world.pods())))
        return *seen, *(sorted(map(_role, world.client.objects(each))) for each in (SERVICES, POD_GROUPS))


def _role(obj: Any) -> str:
    """The name without what was drawn by lot."""
    return re.sub(r"-[a-z0-9]{5}(?=-|$)", "-*", obj.metadata.name)


def _conditions(world: TrainingWorld) -> list[tuple[str, str]]:
    conditions = getattr(world.job.status, "conditions", None) or ()
    return sorted((each.type, each.status) for each in conditions)
