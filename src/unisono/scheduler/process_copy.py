"""Work in a copy of this process, which shares its memory, tells by a pipe what it found, and ends."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

_MOST_SECONDS: Final = 60
_NICENESS: Final = 5
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)  # now: a copy loads no library
_TOO_LONG = (-signal.SIGALRM, -signal.SIGXCPU)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A copy that found nothing.

    Attributes:
        why: in words.
        too_long: it was ended because it worked for longer than a copy may.
    """

    why: str
    too_long: bool = False


Done = Callable[[Any], object]
"""Hears what a copy has found, or `Unfinished`; exactly once, in a thread of its own."""


class Copy:
    """A copy of this process at work."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._reaping = threading.Lock()
        self._reaped = False

    def end(self) -> None:
        """Stop it, if it still works."""
        with self._reaping:  # after that its number may be another process's
            if not self._reaped:
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end; its exit status, negative for a signal; 0 if its status was already collected elsewhere."""
        try:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            with self._reaping:
                self._reaped = True
            return 0
        with self._reaping:
            _, status = os.waitpid(self.pid, 0)
            self._reaped = True
        return os.waitstatus_to_exitcode(status)


def can_copy() -> bool:
    """Whether a process with threads can be copied here: Linux' C library holds its locks meanwhile."""
    return sys.platform == "linux"


def in_copy(work: Callable[[], Any], done: Done) -> Copy:
    """Do ``work`` in a copy of this process; ``done`` hears what it returns.

    The copy has this thread alone, no files but its end of a pipe, and ends after a minute, or with this process.
    ``work`` must only compute: it takes no locks and writes no logs.

    Raises:
        OSError, RuntimeError: there can be no copy now; ``done`` hears nothing.
    """
    reading, writing = os.pipe()
    try:
        parent = os.getpid()
        with warnings.catch_warnings():
            # Python warns of locks that other threads hold: the copy takes none, and the C library frees its own.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _be_copy(work, writing, parent)
        copy = Copy(pid)
        try:
            threading.Thread(target=_follow, args=(copy, reading, done), name="copy", daemon=True).start()
        except BaseException:
            copy.end()
            copy.wait()
            raise
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return copy


def _be_copy(work: Callable[[], Any], writing: int, parent: int) -> NoReturn:
    status = 1
    try:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for each in (signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU):
            signal.signal(each, signal.SIG_DFL)
        signal.alarm(_MOST_SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
        os.nice(_NICENESS)
        with suppress(OSError):  # where memory runs out, the copy goes first
            Path("/proc/self/oom_score_adj").write_text("1000")
        os.closerange(3, writing)  # connections end when this process closes them, not when its copy does
        os.closerange(writing + 1, max(int(path.name) for path in Path("/proc/self/fd").iterdir()) + 1)
        gc.disable()
        try:
            payload = pickle.dumps(work(), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            payload = pickle.dumps(Unfinished(f"{type(error).__name__}: {error}"))
        if os.getppid() == parent:
            with os.fdopen(writing, "wb") as out:
                out.write(payload)
        status = 0
    finally:
        os._exit(status)


def _follow(copy: Copy, reading: int, done: Done) -> None:
    result: Any
    try:
        with os.fdopen(reading, "rb") as out:
            text = out.read()
        status = copy.wait()
        if status == 0 and text:
            result = pickle.loads(text)  # noqa: S301 # nosec B301 # from our own copy
        else:
            result = Unfinished(f"it ended with {status}", too_long=status in _TOO_LONG)
    except Exception as error:
        result = Unfinished(f"{type(error).__name__}: {error}")
    done(result)


def has_memory() -> bool:
    """Whether as much as this process holds is free, on the machine and in its control groups: a copy may need it."""
    try:
        held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(facts["MemAvailable"].split()[0]) * 1024
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except (OSError, KeyError, ValueError):
        return False
    for _, controllers, path in groups:
        if not controllers:  # version 2
            names = ("memory.max", "memory.current", "inactive_file")
            root = Path("/sys/fs/cgroup")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            root = Path("/sys/fs/cgroup/memory")
        else:
            continue
        own = root / path.lstrip("/")
        free = min([free, *(_free_in(folder, *names) for folder in {root, own})])
    return free >= held


def _free_in(group: Path, limit: str, used: str, cached: str) -> int:
    """Bytes that a control group leaves; what it keeps of files counts as free."""
    try:
        most = (group / limit).read_text().strip()
        if not most.isdigit():
            return sys.maxsize
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return int(most) - int((group / used).read_text()) + int(stat.get(cached, 0))
    except (OSError, ValueError):
        return sys.maxsize  # no limit is known
