"""Which process holds a data directory, told apart from a later one with the same process id."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

CONTROL_PLANE = "control plane"


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
        found = _stat(self.pid, 19)
        return bool(found) and self.started in ("", found)

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
