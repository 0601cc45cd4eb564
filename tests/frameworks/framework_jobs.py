"""What the tests need of the machine, and jobs on its control plane: submitted, looked at and taken away."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_reader import Reader

from support.plane import RunningPlane, wait_until

SCRIPTS = Path(__file__).parent / "programs"
SMALL = {"requests": {"cpu": "50m", "memory": "64Mi"}}

MODULES = {
    "ray": "make frameworks",
    "mpi4py": "make frameworks",
    "xgboost": "make frameworks",
    "jax": "make frameworks",
}
PROGRAMS = {"mpirun": "Debian's package openmpi-bin", "ssh": "openssh-client", "sshd": "openssh-server"}
PATIENCE = 600.0
SYSTEM_PATH = "/usr/sbin:/sbin"


def need(*names: str, always: bool = True) -> None:
    """Skip where a module or a program is missing; in continuous integration that is a failure.

    Args:
        names: keys of ``MODULES`` or ``PROGRAMS``, or modules that only some machines have.
        always: continuous integration has them as well.
    """
    for name in names:
        path = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PATH}"
        found = shutil.which(name, path=path) if name in PROGRAMS else importlib.util.find_spec(name)
        if found:
            continue
        advice = f" ({MODULES.get(name) or PROGRAMS[name]})" if name in MODULES or name in PROGRAMS else ""
        message = f"{name} is not installed{advice}"
        if always and os.environ.get("CI"):
            raise AssertionError(message)
        pytest.skip(message)


class Jobs:
    """The jobs of one test.

    Attributes:
        folder: a directory of the test; ``/workspace`` of containers that ``in_workspace`` prepared.
    """

    def __init__(self, plane: RunningPlane, reader: Reader, folder: Path) -> None:
        self.plane, self.reader, self.folder = plane, reader, folder
        self._made: list[str] = []

    def submit(self, manifest: str | dict[str, Any]) -> None:
        """Create what the manifest says."""
        value = yaml.safe_load(manifest) if isinstance(manifest, str) else manifest
        self._made.append(self.reader.create(value))

    def pods(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Pods whose names begin so, by name."""
        found = self.reader.pods()
        return {p["metadata"]["name"]: p for p in found if p["metadata"]["name"].startswith(prefix)}

    def phase(self, pod: str) -> str:
        """Phase of a pod; empty when there is none."""
        found = self.pods(pod).get(pod)
        return "" if found is None else str(found["status"].get("phase", ""))

    def log(self, pod: str) -> str:
        """What the pod has said so far."""
        found = self.pods(pod).get(pod)
        return "" if found is None else self.reader.log(found)

    def logs(self, prefix: str) -> str:
        """What all pods whose names begin so have said."""
        return "\n".join(self.reader.log(pod) for pod in self.pods(prefix).values())

    def wait_for_log(self, pod: str, words: str, patience: float = PATIENCE) -> str:
        """The pod's log as soon as it has the words."""

        def said() -> str:
            text = self.log(pod)
            return text if words in text else ""

        return str(self.patiently(f"{pod} says {words!r}", said, pod, patience))

    def wait_for_phase(self, pod: str, phase: str, patience: float = PATIENCE) -> None:
        """Until the pod's phase is this one."""
        self.patiently(f"{pod} is {phase}", lambda: self.phase(pod) == phase, pod, patience)

    def wait_for_condition(self, resource: str, condition: str, patience: float = PATIENCE) -> dict[str, Any]:
        """The object as soon as a condition of it is true; a job that failed is told at once."""
        plural, _, name = resource.partition("/")

        def holds() -> dict[str, Any] | None:
            value = self.reader.get(plural, name)
            true = {c["type"] for c in value.get("status", {}).get("conditions", ()) if c["status"] == "True"}
            assert condition == "Failed" or "Failed" not in true, value["status"]
            return value if condition in true else None

        found: dict[str, Any] = self.patiently(f"{resource} is {condition}", holds, name, patience)
        return found

    def wait_for_state(self, job: str, phase: str, patience: float = PATIENCE) -> None:
        """Until the Volcano Job's phase is this one."""

        def reached() -> bool:
            value = self.reader.get("jobs.batch.volcano.sh", job)
            return bool(value.get("status", {}).get("state", {}).get("phase") == phase)

        self.patiently(f"job {job} is {phase}", reached, job, patience)

    def clean(self) -> None:
        """Delete what was submitted, with everything that it owns."""
        for path in self._made:
            self.reader.delete(path)
        for name in self.pods(""):
            self.reader.delete(f"/api/v1/namespaces/default/pods/{name}", at_once=True)
        wait_until("all pods are gone", lambda: not self.pods(""))

    def patiently(self, what: str, condition: Any, prefix: str, patience: float = PATIENCE) -> Any:
        """Wait; when it is in vain say what the pods whose names begin so said."""
        try:
            return wait_until(what, condition, patience)
        except AssertionError as error:
            told = [self._story(name, pod) for name, pod in self.pods(prefix.partition("/")[0]).items()]
            raise AssertionError("\n".join([str(error), *told])) from None

    def _story(self, name: str, pod: dict[str, Any]) -> str:
        """The end of a pod's log; of a container that was started again, why, and the log before as well."""
        ended = [state["lastState"] for state in pod["status"].get("containerStatuses", ()) if state.get("lastState")]
        before = f"--- {name}, ended before: {ended}\n{self.reader.log(pod, before=True)[-3000:]}\n" if ended else ""
        return f"{before}--- {name} ({pod['status'].get('phase')}):\n{self.log(name)[-3000:]}"


def in_workspace(template: dict[str, Any], folder: Path) -> None:
    """Let a folder of this machine stand at /workspace, as it does in an image, and ask for few resources."""
    spec = template["spec"]
    spec.setdefault("volumes", []).append({"name": "workspace", "hostPath": {"path": str(folder)}})
    for container in spec["containers"]:
        container["resources"] = SMALL
        container.setdefault("volumeMounts", []).append({"name": "workspace", "mountPath": "/workspace"})
