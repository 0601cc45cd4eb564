"""Writing the container's log."""

# pathlib would cost milliseconds at every start of a container.
# ruff: noqa: PTH104

from __future__ import annotations

import os
import time

from unisono.agent.shim.kernel import write_all

MAX_LINE = 16384


class Log:
    """The container's log: ``TIME STREAM F|P TEXT`` per line (the CRI format), renamed when it is full."""

    def __init__(self, path: str, max_bytes: int, max_files: int) -> None:
        self.path, self.max_bytes, self.max_files = path, max_bytes, max_files
        self.fd = self._open()
        self.size = os.fstat(self.fd).st_size
        self.rest = {"stdout": b"", "stderr": b""}

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def feed(self, stream: str, data: bytes) -> None:
        """Take over what the container wrote; an unfinished line waits for its end."""
        lines = (self.rest[stream] + data).split(b"\n")
        rest = lines.pop()
        stamp = self._stamp(stream)
        out = [stamp + b" F " + line + b"\n" for line in lines]
        while len(rest) >= MAX_LINE:
            out.append(stamp + b" P " + rest[:MAX_LINE] + b"\n")
            rest = rest[MAX_LINE:]
        self.rest[stream] = rest
        if out:
            self._write(b"".join(out))

    def finish(self) -> None:
        """Write lines that never ended."""
        for stream, rest in self.rest.items():
            if rest:
                self._write(self._stamp(stream) + b" F " + rest + b"\n")
                self.rest[stream] = b""

    def _stamp(self, stream: str) -> bytes:
        now = time.time_ns()
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1_000_000_000))
        return f"{text}.{now % 1_000_000_000:09d}Z {stream}".encode()

    def _write(self, data: bytes) -> None:
        try:
            write_all(self.fd, data)
            self.size += len(data)
            if self.size >= self.max_bytes:
                self._rotate()
        except OSError:
            # A full disk must not end the container: its output is lost until there is room again.
            return

    def _rotate(self) -> None:
        for number in range(self.max_files - 1, 0, -1):
            source = self.path if number == 1 else f"{self.path}.{number - 1}"
            try:
                os.rename(source, f"{self.path}.{number}")
            except FileNotFoundError:
                continue
        os.close(self.fd)
        self.fd, self.size = self._open(), 0
