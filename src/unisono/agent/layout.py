"""Where the agent keeps what on disk; the run directories are the memory that survives a killed agent.

::

    DATA/addresses.json            pod uid to address
    DATA/services.json             service uid to address, of services whose requests are taken for them
    DATA/users.json                namespace to user id
    DATA/claims/NAMESPACE/NAME/    folders of claims that have no PersistentVolume, kept when pods go
    DATA/volumes/NAME/             PersistentVolumes that were made for claims
    DATA/pods/UID/pod.json         names, start time and devices of the pod
    DATA/pods/UID/hosts            the pod's /etc/hosts
    DATA/pods/UID/volumes/NAME/    also .home: the home directory of a pod with a user of its own
    DATA/pods/UID/runs/CONTAINER/N/    run N (from 0): spec, lock, log, started, exit, termination
    DATA/gone/UID/                 the same of a pod that was removed just now, without its volumes
    DATA/trash/                    what waits for its removal
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from unisono.agent.lifecycle import Exit

# Small files of the agent that are written whole or not at all.


def write_whole(path: Path, data: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """Write a file under a temporary name and rename it: a reader sees the old or the new one.

    Args:
        path: the file.
        data: its content.
        mode: its permissions.
        owner: user and group that get it; None keeps the writer's.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    if owner is not None:
        os.chown(temporary, *owner)
    temporary.chmod(mode)
    temporary.rename(path)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(value))


def read_json(path: Path, default: Any) -> Any:
    """The value in a JSON file; ``default`` when there is none or it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return default


def read_record(path: Path) -> dict[str, str] | None:
    """A ``key=value`` file of the shim; None when there is none."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    return {key: value.encode("ascii", "ignore").decode("unicode_escape") for key, _, value in pairs}


def rewrite_in_place(path: Path, text: str) -> bool:
    """Change a file that is bound into running containers, keeping its inode; False when nothing changed.

    One write of the new text and a cut behind it: a reader meets the old text or the new one, never an empty file.
    """
    data = text.encode()
    try:
        if path.read_bytes() == data:
            return False
    except FileNotFoundError:
        write_whole(path, data, 0o644)
        return True
    with path.open("r+b", buffering=0) as file:
        file.write(data)
        file.truncate(len(data))
    return True


class PodRecord(msgspec.Struct, omit_defaults=True):
    """What the agent must know of a pod even when it cannot ask the API.

    Attributes:
        devices: allocated card ids by container name.
        claimed: card ids that the pod has through resource claims.
        own_ports: it has the ports of its own address, and does not share the machine's.
        cpus: CPUs that it has for itself, such as ``0-3,8``, by container name.
    """

    namespace: str
    name: str
    uid: str
    start_time: float
    devices: dict[str, list[str]] = msgspec.field(default_factory=dict)
    claimed: list[str] = msgspec.field(default_factory=list)
    own_ports: bool = False
    cpus: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunDir:
    """One run of one container."""

    path: Path
    number: int

    @property
    def log(self) -> Path:
        """The log; full ones are renamed to ``log.1`` and so on."""
        return self.path / "log"

    @property
    def termination(self) -> Path:
        """What the container wrote to its termination message path."""
        return self.path / "termination"

    @property
    def exceeded(self) -> Path:
        """Is there when the agent ended the run because it used more memory than it may."""
        return self.path / "out-of-memory"

    def started(self) -> dict[str, str] | None:
        """Process ids and times once the command was started."""
        return read_record(self.path / "started")

    def exit(self) -> Exit | None:
        """How the run ended, if the shim wrote it."""
        record = read_record(self.path / "exit")
        if record is None:
            return None
        return Exit(
            exit_code=int(record["exit_code"]),
            signal=int(record["signal"]),
            reason=record["reason"],
            message=record["message"],
            started_at=float(record["started_at"]),
            finished_at=float(record["finished_at"]),
        )

    def write_exit(self, result: Exit) -> None:
        """Say how the run ended in place of a shim that cannot."""
        fields = ("exit_code", "signal", "reason", "message", "started_at", "finished_at")
        lines = [f"{name}={str(getattr(result, name)).encode('unicode_escape').decode()}\n" for name in fields]
        temporary = self.path / "exit.tmp"
        temporary.write_text("".join(lines))
        temporary.rename(self.path / "exit")

    def crashes(self) -> int:
        """Failed runs in a row before this one."""
        return int(read_json(self.path / "crashes", 0))

    def is_held(self) -> bool:
        """Whether the run's shim lives: it holds the lock that it inherited."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


@dataclass(frozen=True, slots=True)
class PodDir:
    """The directory of one pod."""

    path: Path

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.path.name

    @property
    def hosts(self) -> Path:
        """The pod's /etc/hosts."""
        return self.path / "hosts"

    def volume(self, name: str) -> Path:
        """Directory of a volume that the agent makes."""
        return self.path / "volumes" / name

    @property
    def home(self) -> Path:
        """Home directory of the pod's own user; no volume can have that name."""
        return self.volume(".home")

    def record(self) -> PodRecord | None:
        """What is known of the pod; None when the directory is not a pod's."""
        value = read_json(self.path / "pod.json", None)
        try:
            return msgspec.convert(value, PodRecord) if value is not None else None
        except msgspec.ValidationError:
            return None

    def write_record(self, record: PodRecord) -> None:
        """Keep what is known of the pod."""
        write_json(self.path / "pod.json", msgspec.to_builtins(record))

    def runs(self, container: str) -> list[RunDir]:
        """The kept runs of a container, oldest first."""
        folder = self.path / "runs" / container
        try:
            numbers = sorted(int(entry.name) for entry in os.scandir(folder) if entry.name.isdigit())
        except FileNotFoundError:
            return []
        return [RunDir(folder / str(number), number) for number in numbers]

    def spawned_runs(self, container: str) -> list[RunDir]:
        """The kept runs whose process was started, oldest first."""
        return [run for run in self.runs(container) if (run.path / "lock").exists()]

    def drop_prepared(self, container: str) -> None:
        """Remove directories that an earlier agent prepared for a start that never came."""
        spawned = self.spawned_runs(container)
        for run in self.runs(container):
            if run not in spawned:
                shutil.rmtree(run.path, ignore_errors=True)

    def new_run(self, container: str, crashes: int) -> RunDir:
        """The directory of the next run; of the earlier ones only the latest is kept."""
        earlier = self.runs(container)
        for old in earlier[:-1]:
            shutil.rmtree(old.path, ignore_errors=True)
        number = earlier[-1].number + 1 if earlier else 0
        run = RunDir(self.path / "runs" / container / str(number), number)
        run.path.mkdir(parents=True)
        write_json(run.path / "crashes", crashes)
        return run

    def all_runs(self) -> Iterator[RunDir]:
        """The latest run of every container."""
        folder = self.path / "runs"
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if runs := self.runs(entry.name):
                yield runs[-1]

    def remove(self) -> None:
        """Forget the pod."""
        shutil.rmtree(self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Layout:
    """The agent's data directory."""

    root: Path

    @property
    def addresses(self) -> Path:
        """File of the address book."""
        return self.root / "addresses.json"

    @property
    def service_addresses(self) -> Path:
        """File of the address book of services."""
        return self.root / "services.json"

    @property
    def users(self) -> Path:
        """File of the users of namespaces."""
        return self.root / "users.json"

    def claim(self, namespace: str, name: str) -> Path:
        """Directory of a PersistentVolumeClaim without a PersistentVolume."""
        return self.root / "claims" / namespace / name

    @property
    def volumes(self) -> Path:
        """Folder of the PersistentVolumes that were made here."""
        return self.root / "volumes"

    def pod(self, uid: str) -> PodDir:
        """Directory of a pod, which need not exist."""
        return PodDir(self.root / "pods" / uid)

    def pods(self) -> list[PodDir]:
        """Directories of all pods that ran here."""
        folder = self.root / "pods"
        return [PodDir(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []

    def gone_pod(self, uid: str) -> PodDir:
        """Directory of a pod that was removed, which need not exist."""
        return PodDir(self.root / "gone" / uid)

    def gone_pods(self) -> list[PodDir]:
        """Directories of removed pods whose logs can still be read."""
        folder = self.root / "gone"
        return [PodDir(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []

    def put_aside(self, uid: str) -> bool:
        """Make a pod a removed one; answers whether it has left anything to read.

        What is not to be read any more is trash: a program may leave a million files, and nothing is to wait for their
        removal.
        """
        pod, gone = self.pod(uid), self.gone_pod(uid)
        if not any(pod.all_runs()):
            self.discard(pod.path)
            return False
        self.discard(pod.path / "volumes")
        gone.path.parent.mkdir(exist_ok=True)
        self.discard(gone.path)
        try:
            pod.path.rename(gone.path)
        except OSError:
            self.discard(pod.path)
            return False
        return True

    def discard(self, path: Path) -> None:
        """Put a folder out of sight, at once; `empty_trash` removes it."""
        self.trash.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.rename(self.trash / secrets.token_hex(8))

    @property
    def trash(self) -> Path:
        """Where folders wait for their removal."""
        return self.root / "trash"

    def empty_trash(self) -> None:
        """Remove what was discarded; takes as long as there are files."""
        for folder in sorted(self.trash.iterdir()) if self.trash.is_dir() else ():
            shutil.rmtree(folder, ignore_errors=True)

    def create(self) -> None:
        """Make the directory, readable by its owner alone: secrets are written below it."""
        (self.root / "pods").mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)
