"""Jobs as users write them, on simulated nodes that have what they ask for: from ``kubectl apply`` to their end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.plane import REPOSITORY, RunningPlane, wait_until

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

Start = Callable[..., RunningPlane]
CONTROLLERS = REPOSITORY / "tests" / "controllers"
VOLCANO, TRAINING = CONTROLLERS / "golden" / "manifests", CONTROLLERS / "golden_training"
QUOTA = Path(__file__).parent / "manifests" / "quota-priority-taints.yaml"

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec: {{accessModes: [{mode}], resources: {{requests: {{storage: 100Gi}}}}}}
"""
QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}}}
spec: {spec}
"""
TRAINING_QUEUE = QUEUE.format(
    name="ai-training-queue", spec='{weight: 100, capability: {cpu: "100", memory: 500Gi, nvidia.com/gpu: "20"}}'
)
NODES = """
- {name: gpu, count: 9, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}
- {name: slow, count: 9, capacity: {cpu: 128, memory: 1Ti, nvidia.com/gpu: 8}, labels: {gpu-tier: standard}}
- {name: fast, count: 9, capacity: {cpu: 128, memory: 1Ti, nvidia.com/gpu: 8}, labels: {gpu-tier: high-performance}}
"""


def numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}-{number}" for number in range(count))


@dataclass(frozen=True)
class Example:
    """A manifest, what it finds on the cluster, and what its readers expect to come of it.

    Attributes:
        file: the manifest.
        job: ``KIND/NAME`` of the job in it.
        pods: names of the pods that run.
        namespace: where the job lives; kubectl's default is "default".
        around: manifests that are there before it.
        claim: name and access mode of the claim that its pods mount; the job waits until it is there.
        services: ports by the name of the Service.
        minimum: its PodGroup's minMember.
        per_node: each of its pods has a node of its own.

    """

    file: Path
    job: str
    pods: tuple[str, ...]
    namespace: str = "default"
    around: tuple[str, ...] = ()
    claim: tuple[str, str] | None = None
    services: dict[str, tuple[int, ...]] = field(default_factory=dict)
    minimum: int = 1
    per_node: bool = False

    @property
    def name(self) -> str:
        return self.job.partition("/")[2]

    @property
    def volcano(self) -> bool:
        return self.job.startswith("vcjob/")


def training(name: str, workers: int) -> dict[str, Any]:
    """The pods of a PyTorchJob with a master, a Service for each, and a gang of all."""
    pods = (f"{name}-master-0", *numbered(f"{name}-worker", workers))
    return {"pods": pods, "services": dict.fromkeys(pods, (23456,)), "minimum": len(pods)}


EXAMPLES = (
    Example(
        VOLCANO / "pytorch-gang.yaml",
        "vcjob/pytorch-distributed-gang",
        ("pytorch-distributed-gang-ps-0", *numbered("pytorch-distributed-gang-worker", 8)),
        around=(TRAINING_QUEUE,),
        minimum=9,
    ),
    Example(VOLCANO / "hello.yaml", "vcjob/hello-volcano-job", ("hello-volcano-job-mytask-0",)),
    Example(VOLCANO / "two-queues.yaml", "vcjob/job-a-1", ("job-a-1-maintask-0",)),
    Example(
        VOLCANO / "depends-on.yaml",
        "vcjob/workflow-job",
        ("workflow-job-task-a-0", "workflow-job-task-b-0"),
    ),
    Example(
        VOLCANO / "queue-podgroup-job.yaml",
        "vcjob/distributed-training",
        ("distributed-training-master-0", *numbered("distributed-training-worker", 4)),
        minimum=5,
    ),
    Example(
        TRAINING / "pytorch-elastic.in.yaml",
        "pytorchjob/pytorch-distributed",
        namespace="ai-workloads",
        claim=("training-data-pvc", "ReadWriteMany"),
        per_node=True,
        **training("pytorch-distributed", 4),
    ),
    Example(
        VOLCANO / "llm-70b.yaml",
        "pytorchjob/llm-training-70b",
        claim=("llm-data-pvc", "ReadWriteOnce"),
        per_node=True,
        **training("llm-training-70b", 8),
    ),
    Example(
        VOLCANO / "ray.yaml",
        "vcjob/ray-distributed-compute",
        ("ray-distributed-compute-head-0", *numbered("ray-distributed-compute-worker", 2)),
        services={"ray-distributed-compute": (), "ray-distributed-compute-head-svc": (6379, 8265, 10001)},
        minimum=3,
    ),
    Example(
        TRAINING / "pytorch-resnet.in.yaml",
        "pytorchjob/resnet-training",
        namespace="kubeflow",
        **training("resnet-training", 2),
    ),
)


@dataclass(frozen=True)
class Scene:
    """An example on its control plane."""

    plane: RunningPlane
    example: Example

    def kubectl(self, *words: str, text: str | None = None) -> str:
        return self.plane.kubectl("-n", self.example.namespace, *words, text=text)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        return self.plane.objects(kind, self.example.namespace)

    def pods(self, phase: str) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.objects("pods") if one["status"].get("phase") == phase}

    def job(self) -> dict[str, Any]:
        one: dict[str, Any] = json.loads(self.kubectl("get", self.example.job, "-o", "json"))
        return one

    def group(self) -> dict[str, Any] | None:
        """The job's own PodGroup; others may be in the manifest."""
        groups = (one for one in self.objects("podgroups") if one["metadata"].get("ownerReferences"))
        return next(groups, None)

    def wait_for(self, phase: str) -> None:
        """Until the job says that it is there: Volcano's jobs by a phase, training jobs by a condition."""
        wanted = f"jsonpath={{.status.state.phase}}={phase}" if self.example.volcano else f"condition={phase}"
        self.kubectl("wait", self.example.job, f"--for={wanted}", "--timeout=300s")

    def end_pods(self) -> None:
        """Simulated containers end when their annotation says so."""
        self.kubectl("annotate", "pods", "--all", "unisono.io/run-seconds=0")

    def clear(self) -> None:
        """Nothing of it is left for the next one."""
        self.kubectl("delete", self.example.job)
        if self.example.claim is not None:
            self.kubectl("delete", "pvc", self.example.claim[0])
        for kind in ("pods", "services"):
            wait_until(f"its {kind} are gone", lambda kind=kind: not _names(self.objects(kind)) - {"kubernetes"})


def _names(objects: list[dict[str, Any]]) -> set[str]:
    return {one["metadata"]["name"] for one in objects}


@pytest.fixture(scope="module")
def shared(start_shared_plane: Start) -> RunningPlane:
    plane = start_shared_plane("--no-agent", nodes=NODES)
    for namespace in sorted({each.namespace for each in EXAMPLES} - {"default"}):
        plane.kubectl("create", "namespace", namespace)
    return plane


# For every change: one of each way to a gang; the others differ in what they ask for.
EVERY_CHANGE = {"pytorch-distributed-gang", "hello-volcano-job", "pytorch-distributed", "ray-distributed-compute"}


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(each, id=each.name, marks=() if each.name in EVERY_CHANGE else pytest.mark.more)
        for each in EXAMPLES
    ],
)
def test_a_job_runs_and_comes_to_its_end(shared: RunningPlane, example: Example) -> None:
    scene = Scene(shared, example)
    shared.apply(*example.around, example.file)
    if example.claim is not None:
        waits_for_its_claim(scene, example.claim)
    wait_until("its pods run", lambda: set(scene.pods("Running")) == set(example.pods))
    scene.wait_for("Running")
    runs_as_expected(scene)
    scene.end_pods()
    scene.wait_for("Completed" if example.volcano else "Succeeded")
    has_ended_as_expected(scene)
    scene.clear()


def waits_for_its_claim(scene: Scene, claim: tuple[str, str]) -> None:
    """Nothing starts while the claim is missing, every answer names it, and the claim is all it takes."""
    name, mode = claim
    lack = f'persistentvolumeclaim "{name}" not found'

    def says_so() -> bool:
        conditions = (scene.group() or {}).get("status", {}).get("conditions") or ()
        return any(lack in each.get("message", "") for each in conditions)

    wait_until("the verdict is there", says_so)
    assert lack in scene.kubectl("describe", "podgroup", scene.example.name)
    told = scene.plane.unisono("explain", scene.example.job, "-n", scene.example.namespace).stdout
    assert lack in told
    assert not scene.pods("Running")
    scene.kubectl("apply", "-f", "-", text=CLAIM.format(name=name, mode=mode))


def _runs(group: Mapping[str, Any]) -> bool:
    """Its phase says so, and its condition, which another cycle may write."""
    conditions = {each["type"]: each["status"] for each in group["status"].get("conditions") or ()}
    return bool(group["status"]["phase"] == "Running" and conditions.get("Scheduled") == "True")


def runs_as_expected(scene: Scene) -> None:
    example = scene.example
    group = wait_until("its PodGroup runs", lambda: (one := scene.group()) and _runs(one) and one)
    assert group["spec"]["minMember"] == example.minimum
    services = {one["metadata"]["name"]: one["spec"].get("ports") or () for one in scene.objects("services")}
    services.pop("kubernetes", None)
    assert {name: tuple(port["port"] for port in ports) for name, ports in services.items()} == example.services
    if example.per_node:
        assert len({pod["spec"]["nodeName"] for pod in scene.pods("Running").values()}) == len(example.pods)


def has_ended_as_expected(scene: Scene) -> None:
    example, status = scene.example, scene.job()["status"]
    if example.volcano:
        assert [each["status"] for each in status["conditions"]] == ["Pending", "Running", "Completed"]
        assert status["succeeded"] == len(example.pods)
    else:
        conditions = {each["type"]: each["status"] for each in status["conditions"]}
        assert conditions == {"Created": "True", "Running": "False", "Succeeded": "True"}
        assert sum(each["succeeded"] for each in status["replicaStatuses"].values()) == len(example.pods)
    # A training job has ended with its master, which is not the last of its pods.
    wait_until("its pods have ended", lambda: set(scene.pods("Succeeded")) == set(example.pods))
    wait_until("its PodGroup is gone", lambda: scene.group() is None)


def test_a_gang_too_large_waits_without_pods_until_its_minimum_is_lowered(start_plane: Start) -> None:
    """20 pods of 4 CPUs on 32 CPUs: all or nothing is nothing, and the verdict counts what is missing."""
    plane = start_plane("--no-agent", nodes="- {name: node, count: 4, capacity: {cpu: 8, memory: 32Gi}}")
    scene = Scene(plane, Example(VOLCANO / "gang-20.yaml", "vcjob/job-a-1", numbered("job-a-1-maintask", 20)))
    plane.apply(QUEUE.format(name="queue-a", spec="{weight: 1}"), scene.example.file)

    def verdict() -> dict[str, Any] | None:
        done = plane.unisono("explain", scene.example.job, "-o", "json", check=False)
        found: list[dict[str, Any]] = json.loads(done.stdout)["verdicts"] if done.returncode == 0 else []
        # The gang may be heard of before its queue.
        return next((each for each in found if each["cause"] == "ClusterOvercommitted"), None)

    told = wait_until("the verdict is there", verdict)
    assert told["need"] == {"cpu": 80000}
    described = wait_until("the PodGroup says it", lambda: "cpu" in (told := plane.kubectl("describe", "pg")) and told)
    assert "Unschedulable" in described
    wait_until("its phase is told", lambda: scene.job()["status"].get("state", {}).get("phase") == "Pending")
    group = scene.group()
    assert group is not None
    assert group["status"]["phase"] == "Pending"
    assert not scene.objects("pods"), "a gang that its queue has not admitted has no pods"
    assert "lower minAvailable to 8" in plane.unisono("explain", scene.example.job).stdout
    estimate = plane.unisono("explain", scene.example.job, "--estimate").stdout
    assert "estimated start: never, as things stand: the nodes that it may use are too few for it" in estimate
    scene.kubectl("patch", scene.example.job, "--type=merge", "-p", '{"spec":{"minAvailable":4}}')
    scene.wait_for("Running")
    wait_until("the nodes are full", lambda: len(scene.pods("Running")) == 8)
    wait_until("the others wait", lambda: len(scene.pods("Pending")) == 12)
    scene.end_pods()
    scene.wait_for("Completed")
    assert set(scene.pods("Succeeded")) == set(scene.example.pods)


def test_tasks_that_depend_on_others_start_after_them(start_plane: Start) -> None:
    """With nothing free for the first task, the second has no pod at all."""
    plane = start_plane("--no-agent", nodes="- {name: only, capacity: {cpu: 8, memory: 32Gi}}")
    scene = Scene(plane, Example(VOLCANO / "depends-on.yaml", "vcjob/workflow-job", ()))
    plane.kubectl("cordon", "only")
    plane.apply(scene.example.file)
    wait_until("the first task waits", lambda: list(scene.pods("Pending")) == ["workflow-job-task-a-0"])
    plane.kubectl("uncordon", "only")
    wait_until("both run", lambda: len(scene.pods("Running")) == 2)
    first, second = (scene.pods("Running")[f"workflow-job-task-{name}-0"] for name in "ab")
    started = first["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    assert second["metadata"]["creationTimestamp"] >= started


def test_an_elastic_job_grows_and_shrinks_between_its_bounds(shared: RunningPlane) -> None:
    (example,) = (each for each in EXAMPLES if each.name == "pytorch-distributed")
    assert example.claim is not None
    scene, (name, mode) = Scene(shared, example), example.claim
    scene.kubectl("apply", "-f", "-", text=CLAIM.format(name=name, mode=mode))
    shared.apply(example.file)
    for workers in (4, 8, 5):
        scene.kubectl("scale", scene.example.job, f"--replicas={workers}")
        names = {"pytorch-distributed-master-0", *numbered("pytorch-distributed-worker", workers)}
        wait_until(f"{workers} workers run", lambda names=names: set(scene.pods("Running")) == names)
        wait_until(
            "the Services follow",
            lambda names=names: _names(scene.objects("svc")) == names,
        )
    scene.wait_for("Running")
    for pod in scene.pods("Running").values():
        environment = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
        assert environment["PET_NNODES"] == "4:8", "workers may come and go while the job runs"
    scene.clear()


UNLIMITED = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: unlimited, namespace: ai-team-a}
spec:
  minAvailable: 2
  schedulerName: volcano
  tasks:
    - {name: w, replicas: 2, template: {spec: {containers: [{name: c, image: busybox}]}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: unlimited, namespace: ai-team-a}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: busybox}]}}}
"""
INTOLERANT = """
apiVersion: v1
kind: Pod
metadata: {name: intolerant, namespace: ai-team-a}
spec:
  nodeSelector: {gpu-type: A100}
  containers: [{name: trainer, image: busybox, resources: {limits: {cpu: 1, memory: 1Gi}}}]
"""


def must_specify(container: str) -> str:
    amounts = ("limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
    return "failed quota: gpu-quota: must specify " + "; ".join(f"{each} for: {container}" for each in amounts)


def _told(plane: RunningPlane, name: str, text: str) -> bool:
    """Whether an event of an object says this; ``kubectl describe`` takes a third of a second to show it."""
    events = plane.objects("events", "ai-team-a")
    return any(one["involvedObject"]["name"] == name and text in one["message"] for one in events)


def test_a_quota_on_limits_refuses_pods_that_have_none_and_taints_keep_others_away(start_plane: Start) -> None:
    plane = start_plane(
        "--no-agent",
        nodes="""
- name: gpu-node-01
  capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}
  labels: {gpu-type: A100}
  taints: [{key: gpu-node, value: "true", effect: NoSchedule}, {key: gpu-type, value: A100, effect: NoSchedule}]
""",
    )
    plane.kubectl("create", "namespace", "ai-team-a")
    done = plane.try_kubectl("apply", "-f", str(QUOTA))
    assert (done.returncode, done.stdout.count("created")) == (1, 4)
    assert f'pods "tolerant" is forbidden: {must_specify("trainer")}' in done.stderr
    plane.apply(UNLIMITED)
    for job, container in (("vcjob/unlimited", "c"), ("pytorchjob/unlimited", "pytorch")):
        text = must_specify(container)
        wait_until(f"the events of {job} say why it has no pods", lambda text=text: _told(plane, "unlimited", text))
        assert text in plane.kubectl("-n", "ai-team-a", "describe", job)
        told = plane.unisono("explain", job, "-n", "ai-team-a").stdout
        assert "unlimited waits for pods that the server refuses" in told
        assert text in told
        assert "create pods that name this PodGroup" not in told
    limited = QUOTA.read_text().replace(
        'command: ["true"]', 'command: ["true"], resources: {limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}}'
    )
    plane.apply(limited, INTOLERANT)
    plane.kubectl("-n", "ai-team-a", "wait", "pod/tolerant", "--for=condition=Ready", "--timeout=300s")
    pod = json.loads(plane.kubectl("-n", "ai-team-a", "get", "pod", "tolerant", "-o", "json"))
    assert pod["spec"]["nodeName"] == "gpu-node-01"
    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == ("low-priority-training", 100)
    wait_until(
        "the pod without tolerations says what keeps it away",
        lambda: _told(plane, "intolerant", "untolerated taint"),
    )
    assert "untolerated taint" in plane.kubectl("-n", "ai-team-a", "describe", "pod", "intolerant")
    quota = json.loads(plane.kubectl("-n", "ai-team-a", "get", "quota", "gpu-quota", "-o", "json"))
    assert quota["status"]["used"]["requests.nvidia.com/gpu"] == "1"
