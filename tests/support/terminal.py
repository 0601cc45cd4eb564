"""A program on a pseudo-terminal: what it draws, and keys for it. Understands as much of a terminal as rich uses."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTH, HEIGHT = 80, 24
# Of a busy machine.
PATIENCE = 600.0
_SEQUENCE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")


class Terminal:
    """A process whose standard streams are a terminal of 80 columns.

    Attributes:
        raw: everything that it wrote.

    """

    def __init__(self, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._master, child = os.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        self.raw = ""
        self.process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**environment, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": str(HEIGHT)},
        )
        os.close(child)

    def read_until(self, pattern: str, patience: float = PATIENCE) -> str:
        """Wait until what was written since the beginning matches; answers all lines that the terminal shows."""
        deadline = time.monotonic() + patience
        while not re.search(pattern, "\n".join(self.lines())):
            if not self._read(deadline):
                raise AssertionError(f"{pattern!r} did not appear; the terminal shows:\n" + "\n".join(self.lines()))
        return "\n".join(self.lines())

    def keys(self, text: str) -> None:
        """Type; ``\\x03`` is Ctrl-C."""
        os.write(self._master, text.encode())

    def end(self, patience: float = PATIENCE) -> int:
        """Read to the end; answers the exit code."""
        deadline = time.monotonic() + patience
        while self._read(deadline):
            pass
        return self.process.wait(timeout=max(1.0, deadline - time.monotonic()))

    def close(self) -> None:
        """End what still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)

    def lines(self) -> list[str]:
        """What is on the terminal, and what scrolled away above it, without colours."""
        return [_SEQUENCE.sub("", line) for line in drawn(self.raw)]

    def _read(self, deadline: float) -> bool:
        """Read what is there; False at the end of the program or of the time."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError as error:
            if error.errno == errno.EIO:  # the program has closed its side
                return False
            raise
        self.raw += data.decode(errors="replace")
        return bool(data)


def unisono_on_terminal(folder: Path, *words: str, **environment: str) -> Terminal:
    """``unisono`` as a user sees it."""
    return Terminal([sys.executable, "-m", "unisono", *words], folder, {**os.environ, **environment})


def drawn(raw: str) -> list[str]:
    """The lines that are left of a program's output, with their colours, once cursor movements are carried out.

    Lines move up and down and are erased or overwritten as a whole from their first column, as rich's displays do.
    """
    lines, row, fresh = [""], 0, False
    for part in re.split(r"(\r|\n|\x1b\[[?\d;]*[A-Za-z])", raw):
        match = _SEQUENCE.fullmatch(part)
        if part == "\n":
            row, fresh = row + 1, True
            if row == len(lines):
                lines.append("")
        elif part == "\r":
            fresh = True
        elif match and match[2] == "A":
            row = max(0, row - int(match[1] or 1))
        elif match and match[2] in "KJ":
            lines[row] = ""
            if match[2] == "J":
                del lines[row + 1 :]
        elif match and match[2] != "m":
            continue
        elif part:
            if fresh and part.strip() and not match:
                lines[row], fresh = "", False
            lines[row] += part
    while len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    return lines
