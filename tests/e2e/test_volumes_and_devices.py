"""Claims on a whole control plane: folders that real processes share, and devices of simulated nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.plane import RunningPlane, wait_until

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: share}
spec:
  minAvailable: 2
  schedulerName: volcano
  volumes:
    - mountPath: /own
      volumeClaim: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
    - mountPath: /data
      volumeClaimName: llm-data-pvc
  tasks:
    - replicas: 2
      name: w
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: c
              image: busybox
              command:
                - sh
                - -c
                - |
                  touch /own/$HOSTNAME /data/$HOSTNAME
                  while [ $(ls /own | wc -l) -lt 2 ]; do sleep 0.1; done
                  ls /own
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: llm-data-pvc}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 100Gi}}
"""

TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two-gpus}
spec:
  spec:
    devices:
      requests:
        - name: gpu
          exactly: {deviceClassName: gpu.nvidia.com, count: 2}
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  resourceClaims: [{{name: gpus, resourceClaimTemplateName: two-gpus}}]
  containers:
    - {{name: c, image: busybox, command: [train], resources: {{claims: [{{name: gpus}}]}}}}
"""


def test_the_pods_of_a_job_share_folders_that_go_with_their_claims(start_plane: Callable[..., RunningPlane]) -> None:
    plane = start_plane()
    plane.apply(JOB)
    wait_until("the job's pods have ended", lambda: len(plane.pods("Succeeded")) == 2)
    assert plane.kubectl("logs", "share-w-0").split() == ["share-w-0", "share-w-1"]
    claims = {each["metadata"]["name"]: each for each in plane.objects("pvc")}
    assert {each["status"]["phase"] for each in claims.values()} == {"Bound"}
    paths = {each["metadata"]["name"]: each["spec"]["local"]["path"] for each in plane.objects("pv")}
    data = plane.data_dir / "agent" / "volumes" / claims["llm-data-pvc"]["spec"]["volumeName"]
    assert str(data) in paths.values()
    plane.kubectl("delete", "vcjob", "share")
    # The job's own claim goes with it, the other one stays with its data.
    wait_until("the job's claim is gone", lambda: len(plane.objects("pvc")) == 1)
    wait_until("its folder is gone", lambda: len(list(data.parent.iterdir())) == 1)
    assert sorted(each.name for each in data.iterdir()) == ["share-w-0", "share-w-1"]
    plane.kubectl("delete", "pvc", "llm-data-pvc")
    wait_until("nothing is left", lambda: not list(data.parent.iterdir()) and not plane.objects("pv"))


def _waiting(plane: RunningPlane) -> list[tuple[str, str]]:
    """Pods without a node, and why."""
    found = []
    for pod in plane.pods("Pending"):
        conditions: list[dict[str, Any]] = pod["status"].get("conditions", [])
        texts = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
        found.append((pod["metadata"]["name"], texts[0] if texts else ""))
    return found


def test_pods_get_devices_and_the_one_too_many_hears_why_it_waits(start_plane: Callable[..., RunningPlane]) -> None:
    nodes = "- {name: gpu, count: 2, capacity: {cpu: 8, memory: 32Gi}, devices: {gpu.nvidia.com: 2}}"
    plane = start_plane("--no-agent", nodes=nodes)
    wait_until("devices are offered", lambda: len(plane.objects("resourceslices")) == 2)
    plane.apply(TEMPLATE, *(POD.format(name=f"p{index}") for index in range(3)))
    wait_until("two run", lambda: len(plane.pods("Running")) == 2)
    why = "0/2 nodes are unavailable: 2 cannot allocate all claims."
    wait_until("the third knows why it waits", lambda: [each for _, each in _waiting(plane) if why in each])
    ((name, _),) = _waiting(plane)
    allocated = [each for each in plane.objects("resourceclaims") if each["status"].get("allocation")]
    given = {
        (result["pool"], result["device"])
        for each in allocated
        for result in each["status"]["allocation"]["devices"]["results"]
    }
    assert given == {("gpu-0", "gpu-0"), ("gpu-0", "gpu-1"), ("gpu-1", "gpu-0"), ("gpu-1", "gpu-1")}
    running = plane.pods("Running")[0]["metadata"]["name"]
    plane.kubectl("delete", "pod", running)
    wait_until("its devices are free", lambda: name in [each["metadata"]["name"] for each in plane.pods("Running")])
    wait_until("its claim goes with the pod", lambda: len(plane.objects("resourceclaims")) == 2)
