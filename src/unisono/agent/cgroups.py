"""One cgroup (v2) per pod: all its processes in one place, to end them together and to attach its network to.

Where no cgroup tree is writable, ``Cgroups.find`` answers None and pods are held by PID namespaces alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from unisono.agent.procfs import mounts


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The agent's own branch of the cgroup tree.

    Attributes:
        root: directory under which each pod gets a directory.
        memory_limits: the memory controller is available in that branch.
    """

    root: Path
    memory_limits: bool = False

    @classmethod
    def find(cls, data_dir: Path, proc: Path = Path("/proc")) -> Cgroups | None:
        """The branch of the agent with this data directory, made if need be; None where none is writable."""
        mount = next((Path(m.target) for m in mounts(proc) if m.kind == "cgroup2"), None)
        if mount is None:
            return None
        name = "unisono-" + hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:12]
        own = _own_path(proc)
        # The top of the tree comes first: a branch below a login session ends with that session.
        for parent in (mount, mount / own.lstrip("/") if own else mount):
            root = parent / name
            try:
                root.mkdir(exist_ok=True)
            except OSError:
                continue
            if os.access(root / "cgroup.procs", os.W_OK):
                return cls(root, _enable_memory(parent, root))
        return None

    def create(self, uid: str, memory_bytes: int | None = None) -> Path | None:
        """The cgroup of a pod; None when the tree went away."""
        path = self.root / uid
        try:
            path.mkdir(parents=True, exist_ok=True)
            if memory_bytes and self.memory_limits:
                (path / "memory.max").write_text(str(memory_bytes))
        except OSError:
            return None
        return path

    def path(self, uid: str) -> Path | None:
        """The cgroup of a pod, if it exists."""
        path = self.root / uid
        return path if path.is_dir() else None

    def kill(self, uid: str) -> None:
        """SIGKILL every process of the pod."""
        if (path := self.path(uid)) is not None:
            kill(path)

    def processes(self, uid: str) -> list[int]:
        """Process ids in the pod's cgroup."""
        path = self.path(uid)
        return _processes(path) if path else []

    def remove(self, uid: str) -> bool:
        """Remove the pod's empty cgroup; False while processes still end in it."""
        path = self.root / uid
        try:
            path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def remove_root(self) -> None:
        """Remove the agent's branch when no pod is left in it."""
        with contextlib.suppress(OSError):
            self.root.rmdir()


def kill(path: Path) -> None:
    """SIGKILL every process in one cgroup: ``cgroup.kill``, or one by one on kernels before 5.14."""
    try:
        (path / "cgroup.kill").write_text("1")
    except OSError:
        for pid in _processes(path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


def oom_kills(path: Path) -> int:
    """How many processes of the cgroup the kernel killed for want of memory; 0 where it is not counted."""
    try:
        lines = (path / "memory.events").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _processes(path: Path) -> list[int]:
    try:
        return [int(line) for line in (path / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _own_path(proc: Path) -> str:
    for line in (proc / "self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line[3:]
    return ""


def _enable_memory(parent: Path, root: Path) -> bool:
    """Let pods below ``root`` have memory limits, where the controller is handed down to it."""
    try:
        if "memory" not in (root / "cgroup.controllers").read_text().split():
            if "memory" not in (parent / "cgroup.controllers").read_text().split():
                return False
            (parent / "cgroup.subtree_control").write_text("+memory")
        (root / "cgroup.subtree_control").write_text("+memory")
    except OSError:
        return False
    return True
