"""Pods as real processes of this machine: commands, exit codes, environment, restarts, endings."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from agent_node import Node, eventually, manifest

from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Secret
from unisono.api.kinds import NODES, PODS, SECRETS
from unisono.api.pod_states import LogOptions

pytestmark = pytest.mark.processes


def alive(marker: str) -> list[int]:
    """Ids of processes with that word in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if marker.encode() in words:
                found.append(int(entry.name))
    return found


async def test_hello(node: Node) -> None:
    node.run(manifest("hello", ["sh", "-c", "echo 'Hello Volcano!'"]))
    pod = await node.phase("hello", "Succeeded", "Failed")
    assert await node.log("hello") == "Hello Volcano!\n"
    state = pod.status.container_statuses[0].state.terminated
    assert (state.exit_code, state.reason) == (0, "Completed")
    assert pod.status.pod_ip.startswith("127.")
    assert {c.type: c.status for c in pod.status.conditions}["Ready"] == "False"


async def test_node_offers_this_machine(node: Node) -> None:
    found = node.client.find(NODES, "here")
    assert found.status.capacity["pods"] == "110"
    assert {c.type: c.status for c in found.status.conditions} == {"Ready": "True", "DiskPressure": "False"}
    assert found.metadata.labels["kubernetes.io/os"] == "linux"


@pytest.mark.parametrize(
    ("script", "code", "signal", "reason"),
    [
        ("exit 0", 0, None, "Completed"),
        ("exit 3", 3, None, "Error"),
        ("kill -9 $$$$", 137, 9, "Error"),
        ("kill -TERM $$$$", 143, 15, "Error"),
    ],
)
async def test_exit_codes(node: Node, script: str, code: int, signal: int | None, reason: str) -> None:
    node.run(manifest("ends", ["sh", "-c", script]))
    pod = await node.phase("ends", "Succeeded", "Failed")
    state = pod.status.container_statuses[0].state.terminated
    assert (state.exit_code, state.signal, state.reason) == (code, signal, reason)
    assert pod.status.phase == ("Succeeded" if code == 0 else "Failed")


async def test_a_command_that_is_not_installed(node: Node) -> None:
    node.run(manifest("typo", ["no-such-program"]))
    pod = await node.phase("typo", "Failed")
    state = pod.status.container_statuses[0].state.terminated
    assert state.reason == "StartError"
    assert state.message == 'exec: "no-such-program": executable file not found in $PATH'


async def test_no_command_fails_with_what_to_do(node: Node) -> None:
    node.run(manifest("image-only"))
    pod = await node.phase("image-only", "Failed")
    assert pod.status.reason == "CannotRun"
    assert "give the container a command" in pod.status.message


async def test_environment_and_arguments(node: Node) -> None:
    node.config_map("settings", {"COLOUR": "red"})
    node.client.put(SECRETS, Secret(metadata=ObjectMeta(name="keys", namespace="default"), data={"token": "czNjcmV0"}))
    container = {
        "args": ["$(GREETING), $(UNKNOWN)", "$$(GREETING)"],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "env": [
            {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "GREETING", "value": "hello $(WHO)"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
        "resources": {"limits": {"cpu": "1500m"}},
    }
    script = 'echo "$0|$1|$COLOUR|$TOKEN|$CPU|$HOSTNAME"; test "$IP" && hostname'
    node.run(manifest("vars", ["sh", "-c", script], container=container))
    pod = await node.phase("vars", "Succeeded", "Failed")
    assert await node.log("vars") == "hello vars, $(UNKNOWN)|$(GREETING)|red|s3cret|2|vars\nvars\n"
    assert pod.status.qos_class == "Burstable"


async def test_python_is_the_interpreter_of_unisono(node: Node) -> None:
    node.run(manifest("py", ["python", "-c", "import numpy, os; print('numpy', os.getcwd())"]))
    await node.phase("py", "Succeeded")
    assert await node.log("py") == f"numpy {node.data_dir.parent}\n"


async def test_waits_for_a_config_map_and_then_starts(node: Node) -> None:
    container = {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "x"}}}]}
    node.run(manifest("waits", ["sh", "-c", "echo $X"], container=container))
    pod = await node.until("waits", lambda pod: pod.status.container_statuses)
    waiting = pod.status.container_statuses[0].state.waiting
    assert (waiting.reason, pod.status.phase) == ("CreateContainerConfigError", "Pending")
    node.config_map("late", {"x": "came"})
    await node.phase("waits", "Succeeded")
    assert await node.log("waits") == "came\n"


async def test_init_containers_run_in_order_before_the_others(node: Node) -> None:
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/work-of-the-pod"}]}
    inits = [
        {"name": name, "command": ["sh", "-c", f"echo {name} >> /work-of-the-pod/order"], **mount}
        for name in ("one", "two")
    ]
    node.run(
        manifest(
            "ordered",
            ["cat", "/work-of-the-pod/order"],
            container=mount,
            initContainers=inits,
            volumes=[{"name": "shared", "emptyDir": {}}],
        )
    )
    pod = await node.phase("ordered", "Succeeded", "Failed")
    assert await node.log("ordered") == "one\ntwo\n"
    assert [c.ready for c in pod.status.init_container_statuses] == [True, True]
    assert not Path("/work-of-the-pod").exists()


async def test_a_failing_init_container_fails_the_pod(node: Node) -> None:
    node.run(manifest("stuck", ["true"], initContainers=[{"name": "init", "command": ["false"]}]))
    pod = await node.phase("stuck", "Failed")
    assert pod.status.init_container_statuses[0].state.terminated.exit_code == 1
    assert pod.status.container_statuses[0].restart_count == 0


async def test_a_sidecar_runs_beside_and_ends_with_the_pod(node: Node) -> None:
    sidecar = {"name": "side", "restartPolicy": "Always", "command": ["sleep", "86399"]}
    node.run(manifest("beside", ["true"], initContainers=[sidecar]))
    pod = await node.phase("beside", "Succeeded", "Failed")
    assert pod.status.phase == "Succeeded"
    assert not alive("86399")


async def test_restart_on_failure_then_success(node: Node, tmp_path: Path) -> None:
    script = f"test -e {tmp_path}/flag || {{ touch {tmp_path}/flag; echo first >&2; exit 1; }}; echo second"
    node.run(manifest("again", ["sh", "-c", script], restartPolicy="OnFailure"))
    pod = await node.phase("again", "Succeeded")
    status = pod.status.container_statuses[0]
    assert (status.restart_count, status.last_state.terminated.exit_code) == (1, 1)
    assert await node.log("again") == "second\n"
    assert await node.log("again", previous=True) == "first\n"


async def test_a_rule_starts_everything_again(node: Node, tmp_path: Path) -> None:
    first = f"touch {tmp_path}/flag; until grep -q other {tmp_path}/order; do sleep 0.05; done; exit 42"
    script = f"test -e {tmp_path}/flag || {{ {first}; }}"
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    note = f"echo $(basename $0) >> {tmp_path}/order"
    value = manifest(
        "whole",
        ["sh", "-c", script],
        container={"restartPolicy": "Never", "restartPolicyRules": [rule]},
        initContainers=[{"name": "init", "command": ["sh", "-c", note, "init"]}],
    )
    value.spec.containers.append(Container(name="other", command=["sh", "-c", f"{note}; sleep 1", "other"]))
    node.run(value)
    pod = await node.phase("whole", "Succeeded", "Failed")
    assert pod.status.phase == "Succeeded"
    assert [each.restart_count for each in pod.status.container_statuses] == [1, 1]
    assert (tmp_path / "order").read_text().split() == ["init", "other"] * 2


async def test_a_rule_of_a_sidecar_starts_everything_again(node: Node, tmp_path: Path) -> None:
    """As agents beside workers have it, that start a gang again in place."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}
    first = f"until grep -q main {tmp_path}/order; do sleep 0.05; done; touch {tmp_path}/flag; exit 1"
    script = f"test -e {tmp_path}/flag || {{ {first}; }}; sleep 86397"
    side = {"name": "side", "restartPolicy": "Always", "restartPolicyRules": [rule], "command": ["sh", "-c", script]}
    main = f"echo main >> {tmp_path}/order; test -e {tmp_path}/flag || sleep 86397"
    node.run(manifest("agent", ["sh", "-c", main], initContainers=[side]))
    pod = await node.phase("agent", "Succeeded", "Failed")
    assert pod.status.phase == "Succeeded"
    assert (tmp_path / "order").read_text().split() == ["main", "main"]


async def test_deletion_ends_every_process_and_removes_the_pod(node: Node) -> None:
    # The grandchild leaves the session and ignores SIGTERM: only its namespace holds it.
    script = "trap '' TERM; (trap '' TERM; setsid sleep 86398) & sleep 86398 & wait"
    node.run(manifest("held", ["sh", "-c", script], terminationGracePeriodSeconds=0))
    await node.phase("held", "Running")
    await eventually(lambda: len(alive("86398")) >= 2)
    uid = node.pod("held").metadata.uid
    await node.client.delete(PODS, "held", "default", grace_seconds=1)
    await eventually(lambda: node.pod("held") is None)
    await eventually(lambda: not alive("86398"))
    await eventually(lambda: not (node.data_dir / "pods" / uid).exists())


async def test_grace_period_lets_a_program_finish(node: Node, tmp_path: Path) -> None:
    script = f"trap 'echo saved > {tmp_path}/model; exit 0' TERM; echo up; while true; do sleep 0.05; done"
    node.run(manifest("polite", ["sh", "-c", script]))
    await eventually(lambda: node.pod("polite").status.phase == "Running")
    stream = node.logs.open(
        "default",
        "polite",
        node.pod("polite").metadata.uid,
        "main",
        LogOptions(follow=True),
    )
    assert await anext(stream) == b"up\n"
    await node.client.delete(PODS, "polite", "default")
    async for _ in stream:
        pass  # the stream ends with the container
    await eventually(lambda: node.pod("polite") is None)
    assert (tmp_path / "model").read_text() == "saved\n"


async def test_active_deadline(node: Node) -> None:
    node.run(manifest("late", ["sleep", "86397"], activeDeadlineSeconds=1))
    pod = await node.phase("late", "Failed")
    assert pod.status.reason == "DeadlineExceeded"
    assert not alive("86397")


async def test_termination_message(node: Node) -> None:
    node.run(manifest("says", ["sh", "-c", "echo because > /dev/termination-log; exit 2"]))
    pod = await node.phase("says", "Failed")
    assert pod.status.container_statuses[0].state.terminated.message == "because\n"
    assert not Path("/dev/termination-log").exists()


async def test_many_pods_at_once(node: Node) -> None:
    for number in range(40):
        node.run(manifest(f"many-{number}", ["sh", "-c", "echo $HOSTNAME"]))
    await asyncio.gather(*(node.phase(f"many-{n}", "Succeeded") for n in range(40)))
    addresses = {node.pod(f"many-{n}").status.pod_ip for n in range(40)}
    assert len(addresses) == 40
    assert await node.log("many-39") == "many-39\n"
