"""The system calls and the little files that every part of the shim needs."""

from __future__ import annotations

import ctypes
import os
import struct

# pathlib would cost milliseconds at every start of a container.
# ruff: noqa: PTH104, PTH123

TYPE_CHECKING = False  # importing typing would cost milliseconds at every start of a container

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


# A folder of the machine as its owner sees it, for another user: files that are made there belong to the owner.
#
# Linux calls it an ID-mapped mount. Runs inside the shim (standard library only).


# pathlib would cost milliseconds at every start of a container.
# ruff: noqa: PTH123


# The numbers are the same on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_RESOLVE_NO_SYMLINKS = 4
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 1, 4, 0x40
_NOSUID, _NODEV, _IDMAP = 2, 4, 0x0010_0000
_IDS = 2**32 - 1


def exchanged(one: int, other: int) -> str:
    """The map of a user namespace in which two ids stand for each other, and all others for themselves."""
    low, high = sorted((one, other))
    ranges = [(0, 0, low), (low, high, 1), (low + 1, low + 1, high - low - 1), (high, low, 1)]
    ranges.append((high + 1, high + 1, _IDS - high - 1))
    if low == high:
        ranges = [(0, 0, _IDS)]
    return "".join(f"{inside} {outside} {count}\n" for inside, outside, count in ranges if count > 0)


def mapped(folder: str, uid: int, gid: int) -> int:
    """A detached mount of a folder in which a user and a group stand for its owner and its group.

    Raises:
        OSError: the kernel or the file system cannot do so.
    """
    here = _opened(folder)
    try:
        owner = os.fstat(here)
        tree = _call(_OPEN_TREE, here, b"", _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE)
    finally:
        os.close(here)
    try:
        namespace = _namespace(exchanged(owner.st_uid, uid), exchanged(owner.st_gid, gid))
        try:
            attributes = struct.pack("QQQQ", _IDMAP | _NOSUID | _NODEV, 0, 0, namespace)
            flags = _AT_EMPTY_PATH | _AT_RECURSIVE
            _call(_MOUNT_SETATTR, tree, b"", flags, attributes, ctypes.c_size_t(len(attributes)))
        finally:
            os.close(namespace)
    except OSError:
        os.close(tree)
        raise
    return tree


def attach(tree: int, place: str) -> None:
    """Put a detached mount to its place.

    Raises:
        OSError: there is a link on the way to it, or no folder.
    """
    try:
        there = _opened(place)
        try:
            _call(_MOVE_MOUNT, tree, b"", there, b"", _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH)
        finally:
            os.close(there)
    finally:
        os.close(tree)


def _opened(folder: str) -> int:
    """A folder by its own path: pods write above others, and a link that one has put there must not lead elsewhere."""
    how = struct.pack("QQQ", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS)
    return _call(_OPENAT2, _AT_FDCWD, os.fsencode(folder), how, ctypes.c_size_t(len(how)))


def _namespace(uids: str, gids: str) -> int:
    """A user namespace with these maps, which lives as long as the descriptor."""
    started, start = os.pipe()
    ended, end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(end)
            unshare(CLONE_NEWUSER)
            os.write(start, b"x")
            os.read(ended, 1)
        finally:
            os._exit(0)
    os.close(start)
    os.close(ended)
    try:
        if not os.read(started, 1):
            raise OSError(1, "no user namespace can be made")
        for name, text in (("uid_map", uids), ("gid_map", gids)):
            with open(f"/proc/{child}/{name}", "w") as file:
                file.write(text)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(started)
        os.close(end)
        os.waitpid(child, 0)


def _call(number: int, *arguments: object) -> int:
    values = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(libc().syscall(ctypes.c_long(number), *values))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
