"""The system calls and the little files that every part of the shim needs."""

# pathlib would cost milliseconds at every start of a container.
# ruff: noqa: PTH104, PTH123

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost milliseconds at every start of a container
if TYPE_CHECKING:
    import ctypes

CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000
CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
START_ERROR = 128


def write_all(fd: int, data: bytes) -> None:
    """write(2) until everything is written."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_all(fd: int) -> bytes:
    """Everything until the other side closes."""
    parts = []
    while part := os.read(fd, 4096):
        parts.append(part)
    return b"".join(parts)


def write_record(path: str, values: dict[str, object]) -> None:
    """Write ``key=value`` lines so that a reader sees all of them or none."""
    text = "".join(f"{key}={str(value).encode('unicode_escape').decode()}\n" for key, value in values.items())
    with open(path + ".tmp", "w") as file:
        file.write(text)
    os.rename(path + ".tmp", path)


def start_time(pid: int) -> int:
    """Clock ticks since boot at which a process started."""
    with open(f"/proc/{pid}/stat") as file:
        stat = file.read()
    return int(stat[stat.rindex(")") + 2 :].split()[19])


def parent_of(pid: str) -> int:
    """Parent of a process, 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            stat = file.read()
    except OSError:
        return 0
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def libc() -> ctypes.CDLL:
    """The C library, loaded only by those who need it."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Put this process into new namespaces."""
    import ctypes

    if libc().unshare(flags):
        code = ctypes.get_errno()
        raise OSError(code, "unshare: " + os.strerror(code))


def enter_user_namespace() -> None:
    """A user namespace in which the caller keeps its ids and may set up the others."""
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)


def prctl(option: int, value: int) -> None:
    """Change one property of this process."""
    libc().prctl(option, value, 0, 0, 0)


def describe(error: BaseException) -> bytes:
    """One line about an error while the container is set up."""
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"the container cannot be set up: {error.strerror}{where}".encode()
    return f"the container cannot be set up: {type(error).__name__}: {error}".encode()
