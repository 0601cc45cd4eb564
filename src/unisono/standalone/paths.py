"""Where a control plane of this machine keeps its things, and who is using them."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from unisono.errors import ConfigError, UnisonoError

# The file of ``--nodes``: simulated nodes as a YAML list.


def read_nodes(path: Path) -> Sequence[dict[str, Any]]:
    """The entries ``{name, count, capacity, labels, taints, devices}`` of the file.

    Raises:
        ConfigError: the file is missing, is no YAML or no list of mappings, or says something wrong of a node.
    """
    from unisono.agent.simulated.specs import parse_specs
    from unisono.api.yaml import load_all

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError("the nodes file is no text in UTF-8: is it the right file?", file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"the nodes file cannot be read: {error.strerror or error}.", file=str(path)) from None
    entries: list[dict[str, Any]] = []
    for document in load_all(text, file=str(path)):
        if not isinstance(document.value, list) or not all(isinstance(item, dict) for item in document.value):
            raise ConfigError(
                "expected a list of nodes such as '- {name: gpu, count: 4, capacity: {cpu: 8, memory: 32Gi}}'.",
                file=str(path),
                line=document.line,
            )
        entries += document.value
    if not entries:
        raise ConfigError("the nodes file is empty: list at least one node.", file=str(path))
    try:
        parse_specs(entries)
    except ConfigError as error:
        raise ConfigError(str(error), file=str(path)) from None
    return entries


# What a control plane keeps at the top of its directory.
_OWN = re.compile(
    r"\.?(kubeconfig|state\.db|history\.db|unisono\.log)\b.*|unisono\.pid|backups\.jsonl|agent|pki|port|run"
)
CONTROL_PLANE = "control plane"


class AlreadyRunning(UnisonoError):
    """Another process runs a control plane in this data directory."""


class UnusableDataDir(UnisonoError):
    """The data directory cannot be made or written."""

    def __init__(self, root: Path, error: OSError) -> None:
        super().__init__(
            f"The data directory {root} cannot be used ({error.strerror or error}): "
            "choose another with --data-dir or $UNISONO_DATA_DIR."
        )


def default_data_dir() -> Path:
    """``$UNISONO_DATA_DIR``, else ``$XDG_DATA_HOME/unisono``, else ``~/.local/share/unisono``."""
    if named := os.environ.get("UNISONO_DATA_DIR"):
        return Path(named)
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "unisono"


@dataclass(frozen=True, slots=True)
class DataDir:
    """The files of one control plane."""

    root: Path

    @classmethod
    def at(cls, path: Path | None) -> DataDir:
        """The directory at ``path``, or the default one."""
        return cls((path or default_data_dir()).expanduser().absolute())

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig that kubectl and the commands of Unisono use; mode 0600."""
        return self.root / "kubeconfig"

    @property
    def database(self) -> Path:
        """The store of the embedded API."""
        return self.root / "state.db"

    @property
    def history(self) -> Path:
        """What ran, for reports."""
        return self.root / "history.db"

    @property
    def backups(self) -> Path:
        """Which backups were made of this control plane: a JSON object a line."""
        return self.root / "backups.jsonl"

    @property
    def agent(self) -> Path:
        """Directory of the node agent: pods, logs, volumes."""
        return self.root / "agent"

    @property
    def socket(self) -> Path:
        """Where components of this control plane reach its API; in a folder for the owner alone."""
        return self.root / "run" / "api"

    @property
    def log(self) -> Path:
        """Log of a control plane that was started with ``--detach``."""
        return self.root / "unisono.log"

    @property
    def lock(self) -> Path:
        """Held by the running process; holds its process id."""
        return self.root / "unisono.pid"

    def create(self) -> None:
        """Make the directory, readable by its owner alone; of one that others use too, the mode stays as it is.

        Raises:
            UnusableDataDir: it cannot be made.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if self._is_private():
                self.root.chmod(0o700)
        except OSError as error:
            raise UnusableDataDir(self.root, error) from error

    def exposed(self) -> list[str]:
        """What other users of the machine can read and should not, a sentence each with the command that cures it."""
        messages: list[str] = []
        try:
            if (mode := _open_mode(self.root)) and not self._is_private():
                messages.append(
                    f"other users of this machine can look into the data directory {self.root} (mode {mode}), "
                    f"which holds files of others too: 'chmod 700 {self.root}' closes it, or choose another directory."
                )
            if mode := _open_mode(self.kubeconfig):
                token = self.root / "pki" / "admin.token"
                messages.append(
                    f"{self.kubeconfig} could be read by other users of this machine (mode {mode}); it is written "
                    "again for its owner alone. If they may have read it, run "
                    f"'rm {token}' while the control plane is stopped: it gets a new token."
                )
            keys = [*(self.root / "pki").glob("*.key"), *(self.root / "pki").glob("*.token"), self.database]
            messages += [
                f"{path} can be read by other users of this machine (mode {mode}): 'chmod 600 {path}' closes it."
                for path in sorted(keys)
                if (mode := _open_mode(path))
            ]
        except OSError as error:
            raise UnusableDataDir(self.root, error) from error
        return messages

    def _is_private(self) -> bool:
        """Whether nothing is in the directory but a control plane's own files."""
        return all(_OWN.fullmatch(path.name) for path in self.root.iterdir())

    def acquire(self, purpose: str = CONTROL_PLANE) -> IO[str]:
        """Take the directory for this process until the returned file is closed or the process ends.

        Args:
            purpose: what for, in a word that others are told.

        Raises:
            AlreadyRunning: another process holds it.
            UnusableDataDir: it cannot be made or written.
        """
        self.create()
        try:
            file = self.lock.open("a+")
        except OSError as error:
            raise UnusableDataDir(self.root, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            holder = self.holder() or Holder()
            process = f"process {holder.pid or 'unknown'}"
            if holder.purpose != CONTROL_PLANE:
                raise AlreadyRunning(
                    f"A {holder.purpose} is going on in {self.root} ({process}): wait until it has ended."
                ) from None
            raise AlreadyRunning(
                f"A control plane already runs in {self.root} ({process}): "
                f"stop it with 'unisono down --data-dir {self.root}', or give another --data-dir."
            ) from None
        try:
            os.ftruncate(file.fileno(), 0)
            # Not by the file's buffer: what a full disk refuses would be written, and refused, again at its closing.
            os.write(file.fileno(), Holder.this_process(purpose).line.encode())
        except OSError as error:
            file.close()
            raise UnusableDataDir(self.root, error) from error
        return file

    def running_pid(self) -> int | None:
        """Process id of the control plane that runs here, or None; the lock decides, not the number in the file."""
        try:
            holder = self.holder()
        except UnusableDataDir:
            return None
        return holder.pid or None if holder is not None and holder.purpose == CONTROL_PLANE else None

    def holder(self) -> Holder | None:
        """The process that holds the directory, or None.

        Raises:
            UnusableDataDir: this user may not look.
        """
        try:
            file = self.lock.open("r", errors="replace")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise UnusableDataDir(self.root, error) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return Holder.parse(file.read())
            return None


def _open_mode(path: Path) -> str:
    """The mode of a file that others than its owner may use, such as ``0644``; empty for any other."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return ""
    return f"{mode:04o}" if mode & 0o077 else ""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the lock of a data directory.

    Attributes:
        pid: its id; 0 where it did not say.
        started: when it started, in the system's own count; empty where it did not say.
        purpose: what it does: ``control plane``, ``backup``, ``restore`` or ``repair``.
    """

    pid: int = 0
    started: str = ""
    purpose: str = CONTROL_PLANE

    @classmethod
    def this_process(cls, purpose: str) -> Holder:
        """The process that asks."""
        return cls(os.getpid(), _stat(os.getpid(), 19), purpose)

    @classmethod
    def parse(cls, text: str) -> Holder:
        """What ``line`` has written; of what is damaged the fields are empty."""
        pid, _, rest = text.strip().partition(" ")
        started, _, purpose = rest.partition(" ")
        return cls(int(pid) if pid.isdigit() else 0, started, purpose or CONTROL_PLANE)

    @property
    def line(self) -> str:
        """For the lock's file."""
        return f"{self.pid} {self.started} {self.purpose}\n"

    @property
    def alive(self) -> bool:
        """Whether the process with this id is the one that wrote it."""
        start_time = _stat(self.pid, 19)
        return bool(start_time) and self.started in ("", start_time)

    @property
    def stopped(self) -> bool:
        """Whether it is suspended (SIGSTOP, a debugger)."""
        return _stat(self.pid, 0) in ("T", "t")

    @property
    def owner(self) -> int | None:
        """The user that it belongs to."""
        try:
            return Path(f"/proc/{self.pid}").stat().st_uid
        except OSError:
            return None

    def send(self, *numbers: signal.Signals) -> bool:
        """Send signals to that process and to no later one of the same id; False when it has ended.

        Raises:
            PermissionError: it belongs to another user.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # From here on the descriptor means one process, whatever becomes of the number.
            if not self.alive:
                return False
            for number in numbers:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


def _stat(pid: int, index: int) -> str:
    """A field of ``/proc/PID/stat`` after the name (0: state, 19: start in ticks since boot); empty for no process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[index]
    except (OSError, IndexError):
        return ""
