"""Control groups of pods and containers: all processes in one place, and the limits that the kernel enforces."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unisono.agent.machine.procfs import PROC, mounts

# One cgroup (v2) per pod: all its processes in one place, to end them together and to attach its network to.
#
# Where no cgroup tree is writable, ``Cgroups.find`` answers None and pods are held by PID namespaces alone.


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
    pids: list[int] = []
    for place in (path, *path.glob("*/")):
        with contextlib.suppress(OSError):
            pids += [int(line) for line in (place / "cgroup.procs").read_text().split()]
    return pids


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


# Limits of containers that the kernel enforces: memory, processes and CPU, by cgroup v2 or v1.

CONTROLLERS = ("memory", "pids", "cpu")
_PERIOD_US = 100_000
# The least quota that the kernel takes.
_LEAST_QUOTA_US = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a container may use at most; None is as much as it likes.

    Attributes:
        memory: bytes.
        cpu: thousandths of a processor.
        pids: processes and threads.
        burst: CPU time that is not used may be used later, above ``cpu``.
    """

    memory: int | None = None
    cpu: int | None = None
    pids: int | None = None
    burst: bool = False


@dataclass(frozen=True, slots=True)
class LimitGroups:
    """Where groups with limits are made.

    Attributes:
        branches: by controller of cgroup v1, the agent's branch of its hierarchy.
        unified: the pods' cgroups (v2), where that has the controllers ``handed_down``.
        handed_down: controllers that groups below those of pods may use.
    """

    branches: Mapping[str, Path] = field(default_factory=dict)
    unified: Cgroups | None = None
    handed_down: frozenset[str] = frozenset()

    @classmethod
    def find(cls, data_dir: Path, cgroups: Cgroups | None, proc: Path = PROC) -> LimitGroups:
        """What this machine lets the agent use.

        Args:
            data_dir: the agent's data directory, by which its branch is named.
            cgroups: its branch of cgroup v2, if there is one.
            proc: where the kernel tells of mounts.
        """
        handed_down = frozenset(cgroups.hand_down(CONTROLLERS)) if cgroups is not None else frozenset()
        name = "unisono-" + hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:12]
        branches: dict[str, Path] = {}
        for mount in mounts(proc):
            for controller in set(CONTROLLERS) - handed_down:
                if mount.kind != "cgroup" or controller not in mount.options or controller in branches:
                    continue
                with contextlib.suppress(OSError):
                    branch = Path(mount.target) / name
                    branch.mkdir(exist_ok=True)
                    if os.access(branch / "cgroup.procs", os.W_OK):
                        branches[controller] = branch
        return cls(branches, cgroups if handed_down else None, handed_down)

    @property
    def enforced(self) -> frozenset[str]:
        """Controllers that work here."""
        return frozenset(self.branches) | self.handed_down

    def create(self, uid: str, leaf: str, limits: Limits) -> tuple[list[Path], frozenset[str]]:
        """Make the groups of one run of a container.

        Args:
            uid: the pod.
            leaf: name of the run.
            limits: its limits.

        Returns:
            The directories that its first process is to enter, that of cgroup v2 first, and the controllers whose
            limit holds.
        """
        places: list[Path] = []
        held: set[str] = set()
        if self.unified is not None and (pod := self.unified.create(uid)) is not None:
            with contextlib.suppress(OSError):
                for folder in (pod, pod / leaf):
                    folder.mkdir(exist_ok=True)
                    if folder == pod:
                        write(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in self.handed_down))
                places.append(pod / leaf)
                held |= {name for name in self.handed_down if _set_v2(pod / leaf, name, limits)}
        for controller, branch in self.branches.items():
            with contextlib.suppress(OSError):
                folder = branch / uid / leaf
                folder.mkdir(parents=True, exist_ok=True)
                if _set_v1(folder, controller, limits):
                    held.add(controller)
                places.append(folder)
        return list(dict.fromkeys(places)), frozenset(held)

    def oom_kills(self, uid: str, leaf: str) -> int:
        """How many processes of a run the kernel killed for want of memory."""
        names = {"memory.oom_control": self.branches.get("memory")}
        if self.unified is not None:
            names["memory.events"] = self.unified.root
        for name, root in names.items():
            if root is not None:
                with contextlib.suppress(OSError):
                    lines = (root / uid / leaf / name).read_text().splitlines()
                    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
        return 0

    def folder(self, controller: str, uid: str) -> tuple[Path, int] | None:
        """The group of a pod for a controller, and the version of cgroups that it is of; None where there is none."""
        if controller in self.handed_down and self.unified is not None:
            return self.unified.root / uid, 2
        branch = self.branches.get(controller)
        return None if branch is None else (branch / uid, 1)

    def processes(self, uid: str) -> dict[str, list[int]]:
        """Process ids of a pod by run of a container, of runs in whose group something runs."""
        pids_by_run: dict[str, list[int]] = {}
        folder = next((each[0] for name in CONTROLLERS if (each := self.folder(name, uid)) is not None), None)
        for path in folder.glob("*/cgroup.procs") if folder is not None else ():
            with contextlib.suppress(OSError):
                if pids := [int(line) for line in path.read_text().split()]:
                    pids_by_run[path.parent.name] = pids
        return pids_by_run

    def bound_cpu(self, uid: str, leaf: str, cpu: int | None) -> bool:
        """Bound the CPU of a run that goes on, in thousandths of a processor; None is no bound. False if that fails."""
        location = self.folder("cpu", uid)
        if location is None:
            return False
        folder, version = location
        if version == 2:
            return write(folder / leaf / "cpu.max", f"{'max' if cpu is None else _quota(cpu)} {_PERIOD_US}")
        return write(folder / leaf / "cpu.cfs_quota_us", "-1" if cpu is None else str(_quota(cpu)))

    def remove(self, uid: str) -> None:
        """Remove the groups of a pod in which nothing runs any more (v1; those of v2 go with the pod's own)."""
        for branch in self.branches.values():
            for folder in [*(branch / uid).glob("*/"), branch / uid]:
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def sweep(self, spare: Collection[str] = ()) -> None:
        """Remove the groups of all pods in which nothing runs, but not of those with a uid in ``spare``.

        A container that is being started, maybe by an agent that has died since, has not entered its group yet.
        """
        for branch in self.branches.values():
            for folder in branch.glob("*/"):
                if folder.name not in spare:
                    self.remove(folder.name)

    def remove_root(self) -> None:
        """Remove the agent's branches where no pod is left in them."""
        for branch in self.branches.values():
            with contextlib.suppress(OSError):
                branch.rmdir()


def _quota(cpu: int) -> int:
    return max(_LEAST_QUOTA_US, cpu * _PERIOD_US // 1000)


def _set_v2(folder: Path, controller: str, limits: Limits) -> bool:
    if controller == "memory" and limits.memory is not None:
        return write(folder / "memory.max", str(limits.memory))
    if controller == "pids" and limits.pids is not None:
        return write(folder / "pids.max", str(limits.pids))
    if controller == "cpu" and limits.cpu is not None:
        held = write(folder / "cpu.max", f"{_quota(limits.cpu)} {_PERIOD_US}")
        if limits.burst:
            write(folder / "cpu.max.burst", str(_quota(limits.cpu)))
        return held
    return True


def _set_v1(folder: Path, controller: str, limits: Limits) -> bool:
    if controller == "memory" and limits.memory is not None:
        done = write(folder / "memory.limit_in_bytes", str(limits.memory))
        # Where swap is counted: else what does not fit would go there without a limit.
        write(folder / "memory.memsw.limit_in_bytes", str(limits.memory))
        return done
    if controller == "pids" and limits.pids is not None:
        return write(folder / "pids.max", str(limits.pids))
    if controller == "cpu" and limits.cpu is not None:
        period = write(folder / "cpu.cfs_period_us", str(_PERIOD_US))
        held = period and write(folder / "cpu.cfs_quota_us", str(_quota(limits.cpu)))
        if limits.burst:
            write(folder / "cpu.cfs_burst_us", str(_quota(limits.cpu)))
        return held
    return True


def write(path: Path, text: str) -> bool:
    """Write a file of the kernel's; False where it has none, or refuses."""
    try:
        # Made by the kernel: a file of ours would mean nothing.
        with path.open("r+") as file:
            file.write(text)
    except OSError:
        return False
    return True
