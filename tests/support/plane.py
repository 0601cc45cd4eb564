"""``unisono up`` as a user starts it, in its own process, and kubectl against it.

Where a test looks again and again, it asks the API itself: each kubectl takes a tenth of a second of a processor, and
each start of ``unisono`` half a second: commands that only ask a control plane run in this process (``asked``).
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import yaml

from support.programs import needed
from unisono.api.kind import Kind
from unisono.api.kinds import ALL_KINDS, POD_GROUPS

REPOSITORY = Path(__file__).parents[2]
MANIFESTS = REPOSITORY / "tests" / "manifests"
# Of a busy machine; what has an answer has it at once.
PATIENCE = 600.0
# As kubectl, which takes the first kind of a name; discovery puts the groups of Volcano's PodGroups first.
_KINDS: dict[str, Kind[Any]] = {
    name: kind
    for kind in (*reversed(ALL_KINDS), POD_GROUPS)
    for name in (kind.plural, kind.singular_name, *kind.short_names)
}


def wait_until(what: str, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The first true answer of ``condition``; fails with ``what`` when there is none in time."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        time.sleep(0.1)
    raise AssertionError(f"waited {patience:g} s in vain until {what}")


def unisono(
    *words: str, check: bool = True, patience: float = PATIENCE, **kwargs: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``unisono`` as a user does."""
    done = subprocess.run(
        [sys.executable, "-m", "unisono", *words],
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
        **kwargs,
    )
    if check and done.returncode:
        raise AssertionError(f"unisono {' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def asked(*words: str, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What ``unisono`` answers, in this process: for commands that make requests and start nothing."""
    from unisono.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code: Any = None
    configured = structlog.get_config()
    try:
        with contextlib.chdir(cwd or "."), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(list(words), program="unisono")
    except SystemExit as end:
        code = end.code
    finally:
        structlog.configure(**configured)
    assert isinstance(code, int), code
    stdout, stderr = (each.buffer.getvalue().decode() for each in (out, err))
    if check and code:
        raise AssertionError(f"unisono {' '.join(words)} ended with {code}:\n{stdout}\n{stderr}")
    return subprocess.CompletedProcess(["unisono", *words], code, stdout, stderr)


@dataclass
class RunningPlane:
    """A control plane in its own process; ``program`` are words that start another version, none for this one."""

    data_dir: Path
    arguments: tuple[str, ...]
    program: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    _api: tuple[str, str, ssl.SSLContext] | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    def start(self) -> None:
        self.kubeconfig.unlink(missing_ok=True)
        self._api = None
        program = self.program or (sys.executable, "-m", "unisono")
        with (self.data_dir.parent / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*program, "up", "--data-dir", str(self.data_dir), *self.arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until("the control plane answers", self._ready)

    def _ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"unisono up ended: {(self.data_dir.parent / 'up.log').read_text()[-4000:]}")
        return self.kubeconfig.exists() and self.get("/readyz")[0] == 200

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET; status 0 where nobody answers."""
        return self.send("GET", path)

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of a request with the administrator's token; status 0 where nobody answers."""
        data = None if body is None else json.dumps(body).encode()
        try:
            server, token, tls = self._access()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            request = urllib.request.Request(server + path, data, headers, method=method)
            with urllib.request.urlopen(request, timeout=PATIENCE, context=tls) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except (OSError, http.client.HTTPException):
            return 0, b""

    def _access(self) -> tuple[str, str, ssl.SSLContext]:
        if (known := self._api) is not None:
            return known
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._api = found = cluster["server"], user["token"], ssl.create_default_context(cadata=authority)
        return found

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=PATIENCE)

    def try_kubectl(self, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.data_dir.parent)}
        return subprocess.run(
            [kubectl(), *words],
            capture_output=True,
            text=True,
            input=text,
            env=environment,
            timeout=PATIENCE,
            check=False,
        )

    def kubectl(self, *words: str, text: str | None = None) -> str:
        done = self.try_kubectl(*words, text=text)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def apply(self, *manifests: str | Path) -> str:
        told = ""
        for manifest in manifests:
            if isinstance(manifest, Path):
                told += self.kubectl("apply", "-f", str(manifest))
            else:
                told += self.kubectl("apply", "-f", "-", text=manifest)
        return told

    def objects(self, kind: str, namespace: str = "default", **labels: str) -> list[dict[str, Any]]:
        """The objects of a kind, named as for ``kubectl get``."""
        path = _KINDS[kind].path(namespace)
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        status, body = self.get(f"{path}?{urllib.parse.urlencode({'labelSelector': selector})}")
        assert status == 200, f"{path}: {status} {body.decode()}"
        items: list[dict[str, Any]] = json.loads(body)["items"]
        return items

    def pods(self, phase: str | None = None, **labels: str) -> list[dict[str, Any]]:
        found = self.objects("pods", **labels)
        return [pod for pod in found if phase is None or pod["status"].get("phase") == phase]

    def unisono(
        self, command: str, *words: str, check: bool = True, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """What a command answers that asks this control plane, see ``asked``."""
        return asked(command, "--data-dir", str(self.data_dir), *words, check=check, cwd=cwd)


def kubectl() -> str:
    """Path of kubectl; where it is missing the tests that need it cannot mean anything."""
    return needed("kubectl")
