"""``kubectl exec``, ``attach``, ``cp`` and ``port-forward``, and the same by the official Python client."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.plane import PATIENCE, RunningPlane, kubectl, wait_until

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

Start = Callable[..., RunningPlane]
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: ignored
    env: [{name: COLOUR, value: blue}]
    command: [python, -u, -m, http.server, "8000"]
    volumeMounts: [{name: data, mountPath: /of-the-pod}]
  volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: ignored, stdin: true, stdinOnce: true, command: [sh, -c, "cat; echo bye"]}
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere}
spec:
  nodeName: simulated-0
  containers:
  - {name: main, image: ignored, command: [sleep, "600"]}
"""
SIMULATED = """
- name: simulated-0
  count: 1
  capacity: {cpu: 8, memory: 32Gi}
  taints: [{key: simulated, value: "yes", effect: NoSchedule}]
"""
OLD = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}


class Pods:
    """kubectl beside the pods of this module."""

    def __init__(self, plane: RunningPlane) -> None:
        self.plane = plane

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig), "HOME": str(self.plane.data_dir.parent), **more}

    def run(self, *words: str, data: bytes | None = None, **more: str) -> subprocess.CompletedProcess[bytes]:
        options: dict[str, Any] = {"input": data} if data is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(
            words, capture_output=True, env=self.environment(**more), timeout=PATIENCE, check=False, **options
        )

    def kubectl(self, *words: str, data: bytes | None = None, **more: str) -> subprocess.CompletedProcess[bytes]:
        return self.run(kubectl(), *words, data=data, **more)


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("access")
    (folder / "nodes.yaml").write_text(SIMULATED)
    plane = RunningPlane(folder / "data", ("--nodes", str(folder / "nodes.yaml")))
    plane.start()
    try:
        plane.apply(PODS)
        wait_until("the pods run", lambda: len(plane.pods("Running")) == 3)
        wait_until("the server listens", lambda: "Serving HTTP" in plane.kubectl("logs", "web"))
        yield Pods(plane)
    finally:
        plane.stop()
        subprocess.run(
            [*plane_command(), "down", "--kill-pods", "--data-dir", str(plane.data_dir)],
            capture_output=True, timeout=PATIENCE, check=False,
        )  # fmt: skip


def plane_command() -> list[str]:
    import sys

    return [sys.executable, "-m", "unisono"]


@pytest.mark.parametrize("more", [{}, OLD], ids=["websocket", "spdy"])
def test_exec_has_streams_and_exit_codes(pods: Pods, more: dict[str, str]) -> None:
    script = "echo $COLOUR; hostname; ls -d /of-the-pod; echo no >&2; exit 3"
    done = pods.kubectl("exec", "web", "--", "sh", "-c", script, **more)
    assert done.stdout.split() == [b"blue", b"web", b"/of-the-pod"], done.stderr
    assert b"no\n" in done.stderr
    assert done.returncode == 3
    data = os.urandom(1_000_000)
    assert pods.kubectl("exec", "-i", "web", "--", "cat", data=data, **more).stdout == data


def test_exec_with_a_terminal(pods: Pods) -> None:
    command = f"{kubectl()} exec -it web -- sh -c 'test -t 0 && tty; exit 5'"
    done = pods.run("script", "-qec", command, "/dev/null")
    assert b"/dev/pts/" in done.stdout
    assert done.returncode == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("web", "--", "nosuch"), b'exec: "nosuch": executable file not found in $PATH'),
        (("web", "-c", "nope", "--", "ls"), b"container nope is not valid for pod web"),
        (("nopod", "--", "ls"), b'pods "nopod" not found'),
        (("elsewhere", "--", "ls"), b"node simulated-0 is simulated"),
    ],
)
def test_what_cannot_be_run_is_told(pods: Pods, words: tuple[str, ...], message: bytes) -> None:
    done = pods.kubectl("exec", *words)
    assert done.returncode == 1
    assert message in done.stderr


def test_files_are_copied_in_and_out(pods: Pods, tmp_path: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(os.urandom(300_000))
    assert pods.kubectl("cp", str(there), "web:/of-the-pod/file").returncode == 0
    assert pods.kubectl("cp", "web:/of-the-pod/file", str(back)).returncode == 0
    assert back.read_bytes() == there.read_bytes()


def test_attach_types_into_a_container_until_its_input_ends(pods: Pods) -> None:
    done = pods.kubectl("attach", "-i", "shell", data=b"typed\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"typed\nbye\n"
    wait_until("the log has it", lambda: "typed\nbye\n" in pods.plane.kubectl("logs", "shell"))


@pytest.mark.parametrize("more", [{}, OLD], ids=["websocket", "spdy"])
def test_a_port_is_forwarded(pods: Pods, more: dict[str, str]) -> None:
    process = subprocess.Popen(
        [kubectl(), "port-forward", "pod/web", ":8000"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=pods.environment(**more),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "Forwarding from 127.0.0.1:" in line
        port = int(line.split("127.0.0.1:")[1].split()[0])
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as answer:
                assert b"Directory listing" in answer.read()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_official_client_runs_commands_and_forwards_ports(pods: Pods) -> None:
    client = pytest.importorskip("kubernetes.client")
    from kubernetes import config
    from kubernetes.stream import portforward, stream

    api = client.CoreV1Api(config.new_client_from_config(str(pods.plane.kubeconfig)))
    session = stream(
        api.connect_get_namespaced_pod_exec, "web", "default", command=["sh", "-c", "read x; echo got $x; exit 4"],
        stdin=True, stdout=True, stderr=True, tty=False, _preload_content=False,
    )  # fmt: skip
    session.write_stdin("word\n")
    session.run_forever(timeout=PATIENCE)
    assert session.read_stdout() == "got word\n"
    assert session.returncode == 4
    session.close()

    forward = portforward(api.connect_get_namespaced_pod_portforward, "web", "default", ports="8000")
    connection = forward.socket(8000)
    connection.setblocking(True)
    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
    answer = b""
    while piece := connection.recv(65536):
        answer += piece
    connection.close()
    assert b"Directory listing" in answer
    assert forward.error(8000) is None
    # The library leaves its sockets to the collector, and does not close them.
    forward.close()
    api.api_client.close()
    gc.collect()
