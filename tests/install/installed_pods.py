"""What Deployments say as processes of this machine: arguments, environment, mounts, service account and probes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from installed import send

from support.accounts import Accounts
from support.ports import free_port
from unisono.kube.http import HttpClient

_PROGRAM = Path(__file__).parent / "pod_process.py"
_TRIES = 3000


@dataclass
class PodProcess:
    """One pod of a Deployment; the ports of its container are others here, since all share one address."""

    name: str
    container: Mapping[str, Any]
    ports: Mapping[str, int]
    process: subprocess.Popen[bytes]
    log: Path

    async def probe(self, which: str) -> None:
        """Return when the probe succeeds; it gets as many tries as the kubelet would give, and some more."""
        get = self.container[which]["httpGet"]
        url = f"http://127.0.0.1:{self.ports[get['port']]}{get['path']}"
        for _ in range(_TRIES):
            assert self.process.poll() is None, self.log.read_text()
            if await asyncio.to_thread(_answers, url):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{which} of {self.name} fails: {self.log.read_text()}")

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['metrics']}/metrics", timeout=300) as answer:
            text: str = answer.read().decode()
            return text

    def forbidden(self) -> list[str]:
        """Requests that the API server refused for lack of rights."""
        lines = self.metrics().splitlines()
        return [line for line in lines if line.startswith("rest_client_requests_total") and 'code="403"' in line]

    def end(self) -> int:
        """Ask it to end, as the kubelet does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=180)
        finally:
            self.process.kill()


async def started(
    client: HttpClient, accounts: Accounts, deployment: Mapping[str, Any], folder: Path, ports: Mapping[str, int]
) -> PodProcess:
    """Start one pod of the deployment; ``ports`` are those that must be what they are, by name."""
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    name = spec["serviceAccountName"].removeprefix("unisono-")
    home = folder / name
    home.mkdir()
    given = {each["name"]: each["containerPort"] for each in container["ports"]}
    mapped = {port: ports.get(port) or free_port() for port in given}
    mounts = {mount["mountPath"]: home / mount["name"] for mount in container["volumeMounts"]}
    for volume in spec["volumes"]:
        await _fill(client, accounts.namespace, volume, home / volume["name"])
    arguments = container["args"]
    for port, number in given.items():
        arguments = [text.replace(f"=:{number}", f"=127.0.0.1:{mapped[port]}") for text in arguments]
    for path, place in mounts.items():
        arguments = [text.replace(f"={path}/", f"={place}/") for text in arguments]
    config = await accounts.config(name, client.config)
    await asyncio.to_thread(_mount_account, home / "account", config.token, config.ca, accounts.namespace)
    server = urlsplit(config.server)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": "/",
        "TMPDIR": str(mounts["/tmp"]),
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        **{each["name"]: each["value"] for each in container.get("env", ())},
    }
    log = home / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(home / "account"), *arguments],
            env=environment,
            cwd=home,
            stdout=stream,
            stderr=stream,
        )
    return PodProcess(name, container, mapped, process, log)


async def _fill(client: HttpClient, namespace: str, volume: Mapping[str, Any], place: Path) -> None:
    place.mkdir()
    if "configMap" in volume:
        name = volume["configMap"]["name"]
        status, found = await send(client, "GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        assert status == 200, found
        for file, text in found["data"].items():
            (place / file).write_text(text)
    else:
        assert "emptyDir" in volume, volume


def _mount_account(folder: Path, token: str | None, ca: bytes | None, namespace: str) -> None:
    folder.mkdir()
    (folder / "token").write_text(token or "")
    (folder / "ca.crt").write_bytes(ca or b"")
    (folder / "namespace").write_text(namespace)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
