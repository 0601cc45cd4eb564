"""One cgroup (v2) per pod: all its processes in one place, to end them together and to attach its network to.

Where no cgroup tree is writable, ``Cgroups.find`` answers None and pods are held by PID namespaces alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unisono.agent.machine.procfs import mounts


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The agent's own branch of the cgroup tree.

    Attributes:
        root: directory under which each pod gets a directory.
    """

    root: Path

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
                return cls(root)
        return None

    def hand_down(self, controllers: Sequence[str]) -> set[str]:
        """Let groups below those of pods use these controllers; answers which of them they can."""
        return {name for name in controllers if _hand_down(self.root, name)}

    def create(self, uid: str) -> Path | None:
        """The cgroup of a pod; None when the tree went away."""
        path = self.root / uid
        try:
            path.mkdir(parents=True, exist_ok=True)
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
            for leaf in path.glob("*/"):
                leaf.rmdir()
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


def _processes(path: Path) -> list[int]:
    found: list[int] = []
    for place in (path, *path.glob("*/")):
        with contextlib.suppress(OSError):
            found += [int(line) for line in (place / "cgroup.procs").read_text().split()]
    return found


def _own_path(proc: Path) -> str:
    for line in (proc / "self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line[3:]
    return ""


def _hand_down(root: Path, controller: str) -> bool:
    """Enable a controller for the groups below ``root``, where it is handed down to it."""
    try:
        if controller not in (root / "cgroup.controllers").read_text().split():
            if controller not in (root.parent / "cgroup.controllers").read_text().split():
                return False
            (root.parent / "cgroup.subtree_control").write_text(f"+{controller}")
        (root / "cgroup.subtree_control").write_text(f"+{controller}")
    except OSError:
        return False
    return True
