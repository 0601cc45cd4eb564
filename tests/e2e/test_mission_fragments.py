"""Fragments of guides by their literal text, with a real kubectl: what is stored, refused or told, and what follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.plane import RunningPlane, asked, wait_until

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

Start = Callable[..., RunningPlane]
ARTICLES = Path(__file__).parent / "manifests" / "articles"
CONFIG = "volcano-scheduler-config"
LABELS = "nvidia.com/gpu.product: NVIDIA-H100-80GB, topology.kubernetes.io/zone: zone-a, gpu-tier: high-performance"
NODES = f"""
- {{name: cpu, count: 2, capacity: {{cpu: 16, memory: 64Gi}}}}
- name: old
  capacity: {{cpu: 128, memory: 1Ti, nvidia.com/gpu: 8}}
  labels: {{nvidia.com/gpu.memory: "16384", nvidia.com/gpu.compute.major: "7", nvidia.com/gpu.compute.minor: "0"}}
- name: new
  count: 6
  capacity: {{cpu: 128, memory: 1Ti, nvidia.com/gpu: 8}}
  labels: {{nvidia.com/gpu.memory: "81920", nvidia.com/gpu.compute.major: "9", {LABELS}}}
- name: shared
  capacity: {{cpu: 32, memory: 64Gi, aliyun.com/gpu-mem: 64, aliyun.com/gpu-count: 4, aliyun.com/gpu-core: 400}}
- name: spot
  capacity: {{cpu: 32, memory: 64Gi, nvidia.com/gpu: 8}}
  labels: {{cloud.google.com/gke-spot: "true"}}
  taints: [{{key: cloud.google.com/gke-spot, value: "true", effect: NoSchedule}}]
"""
WRONG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-config, namespace: volcano-system}
data:
  volcano-scheduler.conf: |
    actions: "enqueue, alocate, backfill"
    tiers: []
"""


LATE = """
apiVersion: v1
kind: Pod
metadata: {name: late}
spec: {schedulerName: volcano, containers: [{name: c, image: i}]}
"""


def article(name: str) -> Path:
    return ARTICLES / f"{name}.yaml"


def told(plane: RunningPlane, file: Path | str, *words: str) -> str:
    """What kubectl says on its standard error while it applies something that is stored."""
    text = file.read_text() if isinstance(file, Path) else file
    done = plane.try_kubectl("apply", "-f", "-", *words, text=text)
    assert done.returncode == 0, done.stderr
    return done.stderr


def events(plane: RunningPlane) -> list[tuple[str, str]]:
    """Reason and text of the events on the ConfigMap of the configuration."""
    found = plane.objects("events", "volcano-system")
    return [(one["reason"], one["message"]) for one in found if one["involvedObject"]["name"] == CONFIG]


def node_of(plane: RunningPlane, pod: str) -> str:
    plane.kubectl("wait", f"pod/{pod}", "--for=condition=Ready", "--timeout=300s")
    return plane.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")


def test_configurations_in_a_config_map_are_in_force_and_mistakes_are_told_where_users_look(start_plane: Start) -> None:
    plane = start_plane("--no-agent", nodes=NODES)
    assert "in namespace volcano-system only" in told(plane, article("tuning-configmap"))

    warning = told(plane, article("gpu-aware-configmap"))
    assert "no actions: the default ones are in force" in warning
    assert "no plug-in gang" in warning
    check = wait_until("it is in force", lambda: _checked(plane, f"ConfigMap volcano-system/{CONFIG}"))
    assert any("no actions" in note for note in check["notes"])
    wait_until("its event is there", lambda: "ConfigurationNote" in dict(events(plane)))
    plane.apply(article("gpu-pod"))
    assert node_of(plane, "gpu-pod").startswith("new-"), "the better cards are preferred"

    assert told(plane, article("scheduler-configmap")) == ""
    wait_until("it is in force", lambda: not _checked(plane, "ConfigMap", patient=False).get("notes"))

    assert "volcano-scheduler.conf:1: unknown action alocate; did you mean allocate?" in told(plane, WRONG)
    refused = wait_until("its event is there", lambda: dict(events(plane)).get("ConfigurationRefused"))
    assert "did you mean allocate?" in refused
    described = plane.kubectl("describe", "configmap", CONFIG, "-n", "volcano-system")
    assert "ConfigurationRefused" in described
    wait_until("the check fails", lambda: _check(plane).returncode == 1)
    plane.kubectl("cordon", "-l", "kubernetes.io/hostname")
    plane.apply(article("scheduler-configmap").read_text().replace('"enqueue', '"enqueu'))
    plane.apply(LATE)
    wait_until(
        "explain tells it",
        lambda: "unknown action enqueu" in plane.unisono("explain", "pod/late", check=False).stdout,
    )

    warning = told(plane, article("tuning-configmap"), "-n", "volcano-system")
    assert "--cache-pod-group-interval has no effect" in warning
    assert "bind-worker-threads" not in warning
    wait_until("it is in force", lambda: _checked(plane, f"ConfigMap volcano-system/{CONFIG}"))
    plane.kubectl("delete", "configmap", CONFIG, "-n", "volcano-system")
    wait_until("the default is in force again", lambda: _checked(plane, "the default configuration"))


def _check(plane: RunningPlane) -> Any:
    return asked("config", "check", "--data-dir", str(plane.data_dir), "-o", "json", check=False)


def _checked(plane: RunningPlane, source: str, *, patient: bool = True) -> dict[str, Any]:
    """What ``unisono config check`` says, once it speaks of this source without an error."""
    found: dict[str, Any] = json.loads(_check(plane).stdout or "{}")
    good = str(found.get("source", "")).startswith(source) and not found.get("error")
    return found if good else ({} if patient else {"notes": ["not yet"]})


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "namespace", "volume", "pods"),
    [
        ("pytorchjob-literal", "ai-workloads", "data", 5),
        ("pytorchjob-resnet-literal", "kubeflow", "workspace", 3),
    ],
)
def test_a_job_whose_master_lacks_a_volume_is_stored_and_says_so(
    start_plane: Start, name: str, namespace: str, volume: str, pods: int
) -> None:
    plane = start_plane("--no-agent", nodes=NODES)
    plane.kubectl("create", "namespace", namespace)
    path = "spec.pytorchReplicaSpecs[Master].template.spec.containers[0].volumeMounts[0].name"
    lack = f'{path}: Not found: "{volume}"'
    assert lack in told(plane, article(name))
    manifest = yaml.safe_load(article(name).read_text())
    job = f"pytorchjob/{manifest['metadata']['name']}"

    def kubectl(*words: str) -> str:
        return plane.kubectl("-n", namespace, *words)

    status = wait_until("its status is there", lambda: json.loads(kubectl("get", job, "-o", "json")).get("status"))
    conditions = {each["type"]: each["message"] for each in status["conditions"]}
    assert lack in conditions["PodsLack"]
    assert list(conditions)[-1] == "Created", "tools show the last condition as the state of the job"
    wait_until("explain tells it", lambda: "volumeMounts" in plane.unisono("explain", job, "-n", namespace).stdout)

    specs = manifest["spec"]["pytorchReplicaSpecs"]
    specs["Master"]["template"]["spec"]["volumes"] = specs["Worker"]["template"]["spec"]["volumes"]
    if namespace == "ai-workloads":
        claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        meta = {"name": "training-data-pvc", "namespace": namespace}
        plane.apply(json.dumps({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim}))
    assert told(plane, json.dumps(manifest)) == ""
    kubectl("wait", job, "--for=condition=Running", "--timeout=300s")
    wait_until("its pods run", lambda: len(_running(plane, namespace)) == pods)
    after = json.loads(kubectl("get", job, "-o", "json"))["status"]["conditions"]
    assert "PodsLack" not in {each["type"] for each in after}


def _running(plane: RunningPlane, namespace: str) -> list[str]:
    found = plane.objects("pods", namespace)
    return [one["metadata"]["name"] for one in found if one["status"].get("phase") == "Running"]


def test_pods_of_guides_find_their_nodes_or_are_refused_as_by_kubernetes(start_plane: Start) -> None:
    plane = start_plane("--no-agent", nodes=NODES)
    for name, pods in (("gpu-tiers", ("llm-training", "finetuning", "inference")), ("spot", ("spot-training",))):
        done = plane.try_kubectl("apply", "-f", str(article(name)))
        assert done.returncode == 1
        for pod in pods:
            assert f'"{pod}" is invalid: spec.containers[0].image: Required value' in done.stderr
        complete = list(yaml.safe_load_all(article(name).read_text()))
        for one in complete:
            one["spec"]["containers"][0]["image"] = "busybox"
            plane.apply(json.dumps(one))
    plane.apply(*(article(name) for name in ("gpu-pod", "affinity", "gpu-core", "dcgm")))
    assert node_of(plane, "spot-training") == "spot"
    assert node_of(plane, "llm-training").startswith("new-")
    assert node_of(plane, "affine").startswith("new-")
    assert node_of(plane, "gpu-shared-core-pod") == "shared"
    assert node_of(plane, "gpu-pod")
    waiting = plane.unisono("explain", "pod/finetuning").stdout
    assert "gpu-tier" in waiting, "no node has the label"
    assert "dcgm-exporter-config" in plane.kubectl("get", "configmaps")
    assert plane.kubectl("get", "vjob") == plane.kubectl("get", "vcjob")
