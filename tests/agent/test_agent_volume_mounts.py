"""Volumes as containers see them."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_node import Node, eventually, manifest

from unisono.api.base import ObjectMeta
from unisono.api.core import PersistentVolumeClaim, PersistentVolumeClaimSpec
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS

pytestmark = pytest.mark.processes


async def test_files_of_config_maps_at_a_path_that_the_machine_does_not_have(node: Node) -> None:
    node.config_map("job-svc", {"worker.host": "job-worker-0.job\njob-worker-1.job\n", "VC_WORKER_NUM": "2"})
    node.run(
        manifest(
            "reads",
            ["sh", "-c", "cat /etc/volcano/worker.host; touch /etc/volcano/x; ls /etc/passwd"],
            container={"volumeMounts": [{"name": "hosts", "mountPath": "/etc/volcano"}]},
            volumes=[{"name": "hosts", "configMap": {"name": "job-svc"}}],
        )
    )
    await node.phase("reads", "Succeeded")
    log = await node.log("reads")
    # The order of standard output and error is not kept: they are two pipes.
    assert [line for line in log.splitlines() if "touch" not in line] == [
        "job-worker-0.job", "job-worker-1.job", "/etc/passwd"
    ]  # fmt: skip
    assert "Read-only file system" in log
    assert not Path("/etc/volcano").exists()


async def test_changed_config_maps_reach_running_pods(node: Node) -> None:
    node.config_map("live", {"size": "1"})
    script = "while ! grep -q 2 /config/size; do sleep 0.05; done; echo grown"
    node.run(
        manifest(
            "follows",
            ["sh", "-c", script],
            container={"volumeMounts": [{"name": "v", "mountPath": "/config"}]},
            volumes=[{"name": "v", "configMap": {"name": "live"}}],
        )
    )
    await node.phase("follows", "Running")
    node.config_map("live", {"size": "2"})
    await node.phase("follows", "Succeeded")
    assert await node.log("follows") == "grown\n"


async def test_changed_annotations_reach_running_pods(node: Node) -> None:
    item = {"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations"}}
    script = "while ! grep -q 'saved=\"yes\"' /pod/notes; do sleep 0.05; done; echo seen"
    node.run(
        manifest(
            "follows",
            ["sh", "-c", script],
            container={"volumeMounts": [{"name": "v", "mountPath": "/pod"}]},
            volumes=[{"name": "v", "downwardAPI": {"items": [item]}}],
        )
    )
    await node.phase("follows", "Running")
    await node.client.patch(PODS, "follows", {"metadata": {"annotations": {"saved": "yes"}}}, namespace="default")
    await node.phase("follows", "Succeeded")
    assert await node.log("follows") == "seen\n"


async def test_claims_outlive_their_pods(node: Node) -> None:
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="models", namespace="default"),
        spec=PersistentVolumeClaimSpec(access_modes=["ReadWriteMany"]),
    )
    node.client.put(PERSISTENT_VOLUME_CLAIMS, claim)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "models"}}]
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/models", "subPath": "run1"}]}
    node.run(manifest("writes", ["sh", "-c", "echo 42 > /models/weights"], container=mount, volumes=volumes))
    await node.phase("writes", "Succeeded")
    node.run(manifest("loads", ["cat", "/models/weights"], container=mount, volumes=volumes))
    await node.phase("loads", "Succeeded")
    assert await node.log("loads") == "42\n"
    assert node.client.find(PERSISTENT_VOLUME_CLAIMS, "default/models").status.phase == "Bound"


async def test_host_path_and_read_only(node: Node, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("input")
    mounts = [
        {"name": "data", "mountPath": "/data/in", "readOnly": True},
        {"name": "data", "mountPath": "/data/out"},
    ]
    node.run(
        manifest(
            "copies",
            ["sh", "-c", "cp /data/in/x /data/out/y && ! touch /data/in/z"],
            container={"volumeMounts": mounts},
            volumes=[{"name": "data", "hostPath": {"path": str(tmp_path / "data")}}],
        )
    )
    await node.phase("copies", "Succeeded")
    assert (tmp_path / "data" / "y").read_text() == "input"


async def test_memory_volume_and_read_only_root(node: Node) -> None:
    node.run(
        manifest(
            "shm",
            ["sh", "-c", "stat -f -c %T /dev/shm && touch /dev/shm/x && ! touch /tmp/x /usr/x"],
            container={
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                "securityContext": {"readOnlyRootFilesystem": True},
            },
            volumes=[{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
        )
    )
    await node.phase("shm", "Succeeded", "Failed")
    assert (await node.log("shm")).startswith("tmpfs\n")
    assert node.pod("shm").status.phase == "Succeeded"


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"hostPath": {"path": "/no/such/place"}}, "the path /no/such/place does not exist on this node"),
        ({"nfs": {"server": "s", "path": "/"}}, "is of a type that this runtime does not have"),
    ],
)
async def test_volumes_that_cannot_be_had(node: Node, volume: dict[str, object], message: str) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    node.run(manifest("cannot", ["true"], container=mount, volumes=[{"name": "v"} | volume]))
    pod = await node.phase("cannot", "Failed")
    assert message in pod.status.message


async def test_a_missing_claim_is_waited_for(node: Node) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "nope"}}]
    node.run(manifest("waits", ["true"], container=mount, volumes=volumes))
    pod = await node.until("waits", lambda pod: pod.status.container_statuses)
    assert pod.status.container_statuses[0].state.waiting.message == 'persistentvolumeclaim "nope" not found'
    await eventually(lambda: node.events("Failed"))
