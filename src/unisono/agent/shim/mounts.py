"""The container's view of the file system: volumes bound to their mount paths, the machine's files around them.

Runs inside the shim's fresh mount namespace (standard library only). A mount path that this machine does not have is
made to exist **in the namespace only**: the nearest existing directory above it is covered by a tmpfs in which every
entry of the original is bound again, and there the missing directory is created. For ``/`` that is a new root.
"""

# pathlib would cost milliseconds at every start of a container.
# ruff: noqa: PTH102, PTH103, PTH112, PTH115, PTH116, PTH118, PTH120, PTH123, PTH208, PTH211

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

from unisono.agent.shim.kernel import attach, mapped

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_SLAVE = 4096, 16384, 1 << 19
MNT_DETACH = 2
TMPFS = "tmpfs:"
# The number is the same on every architecture.
_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = 2, 8
_KEPT = {os.ST_NOSUID: MS_NOSUID, os.ST_NODEV: MS_NODEV, os.ST_NOEXEC: MS_NOEXEC, 1024: 1024, 2048: 2048, 4096: 1 << 21}

_libc = ctypes.CDLL(None, use_errno=True)


def set_up(
    mounts: list[tuple[str, str, bool, str, bool]],
    root: str,
    read_only: bool,
    user: tuple[int, int | None, list[int]] | None = None,
    covers: list[tuple[str, list[str]]] | None = None,
    writable: list[str] | None = None,
) -> None:
    """Build the view.

    Args:
        mounts: ``(source, target, read_only, sub_path, by_user)``: files or directories of the machine and where they
            appear (see ``volumes.Mount``).
        root: an empty or missing directory on which a new root may be mounted.
        read_only: everything but the given mounts becomes read-only.
        user: user, group and further groups of the container; None is the caller's.
        covers: folders that the user may not enter, and the paths below them that are shown, read-only, all the same.
        writable: folders in which the user has the rights of their owner.
    """
    mount(None, "/", None, MS_SLAVE | MS_REC)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    view = View()
    if any(nearest(target) == "/" for _, target, *_ in mounts):
        os.makedirs(root, exist_ok=True)
        view.new_root(root)
    # Sources are held open from here on: one mount may cover the source of the next.
    held = [
        (hold(source, sub_path, user if by_user else None), source, target, ro)
        for source, target, ro, sub_path, by_user in mounts
    ]
    own = mapped_folders([] if read_only else writable or [], user)
    for directory, shown in covers or ():
        view.cover(directory, shown)
    if read_only:
        freeze("/")
    for tree, place in own:
        attach(tree, place)
    for fd, source, target, ro in sorted(held, key=lambda item: item[2].count("/")):
        place = os.path.realpath(target)
        if fd is None:
            view.make_place(place, True)
            mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, source.removeprefix(TMPFS))
        else:
            view.make_place(place, os.path.isdir(f"/proc/self/fd/{fd}"))
            bind_held(fd, source, place)
            os.close(fd)
        if ro:
            remount_read_only(place)


def mapped_folders(folders: list[str], user: tuple[int, int | None, list[int]] | None) -> list[tuple[int, str]]:
    """Detached mounts of folders for a user; one that cannot be mapped stays as it is."""
    mounts: list[tuple[int, str]] = []
    if user is None:
        return mounts
    uid, gid = user[0], user[0] if user[1] is None else user[1]
    for folder in folders:
        try:
            mounts.append((mapped(folder, uid, gid), folder))
        except OSError:
            continue
    return mounts


def hold(source: str, sub_path: str, user: tuple[int, int | None, list[int]] | None) -> int | None:
    """Keep a source reachable; a memory volume (``tmpfs:OPTIONS``) has none.

    Args:
        source: path of the machine.
        sub_path: what is meant below it. Other pods may write there at this moment: links must not lead out of it.
        user: with whose rights the path is walked; None takes the caller's.
    """
    if source.startswith(TMPFS):
        return None
    if user is None:
        return descend(os.open(source, os.O_PATH | os.O_CLOEXEC), sub_path)
    groups = os.getgroups()
    uid, gid, others = user
    os.setgroups(others)
    os.setegid(os.getgid() if gid is None else gid)
    os.seteuid(uid)
    try:
        return descend(os.open(source, os.O_PATH | os.O_CLOEXEC), sub_path)
    finally:
        os.seteuid(os.getuid())
        os.setegid(os.getgid())
        os.setgroups(groups)


def descend(fd: int, sub_path: str) -> int:
    """What is at a path below an open directory; missing directories are made with the mode of the one above.

    Symbolic links are followed as long as they stay below the directory (``openat2`` with ``RESOLVE_BENEATH``).
    """
    if not sub_path:
        return fd
    try:
        target = open_beneath(fd, sub_path)
    except FileNotFoundError:
        make_beneath(fd, sub_path)
        target = open_beneath(fd, sub_path)
    os.close(fd)
    return target


def make_beneath(fd: int, sub_path: str) -> None:
    """Make the directories of a path below an open directory."""
    above = os.dup(fd)
    done = ""
    for name in sub_path.split("/"):
        done = f"{done}/{name}" if done else name
        try:
            here = open_beneath(fd, done)
        except FileNotFoundError:
            there = os.stat(f"/proc/self/fd/{above}")
            os.mkdir(name, dir_fd=above)
            here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            if os.geteuid() == 0:
                os.fchown(here, there.st_uid, there.st_gid)
            os.fchmod(here, stat.S_IMODE(there.st_mode))
        os.close(above)
        above = here
    os.close(above)


def open_beneath(fd: int, path: str) -> int:
    """Open a path below a directory, which it must not leave."""
    flags = os.O_PATH | os.O_CLOEXEC
    how = struct.pack("QQQ", flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    opened = int(_libc.syscall(ctypes.c_long(_OPENAT2), fd, os.fsencode(path), how, ctypes.c_size_t(len(how))))
    if opened < 0 and ctypes.get_errno() == errno.ENOSYS:
        # Before Linux 5.6: without any links.
        opened = os.dup(fd)
        for name in path.split("/"):
            above, opened = opened, os.open(name, flags | os.O_NOFOLLOW, dir_fd=opened)
            os.close(above)
            if stat.S_ISLNK(os.fstat(opened).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return opened
    if opened < 0:
        code = ctypes.get_errno()
        text = "the sub-path leads out of its volume" if code == errno.EXDEV else os.strerror(code)
        raise OSError(code, text, path)
    return opened


def bind_held(fd: int, source: str, place: str) -> None:
    """Bind an open file or directory to its place."""
    try:
        mount(f"/proc/self/fd/{fd}", place, None, MS_BIND | MS_REC)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"mount of {source} on {place}") from None


class View:
    """The directories of the namespace in which we may create entries."""

    def __init__(self) -> None:
        self.mimicked: set[str] = set()

    def make_place(self, target: str, is_dir: bool) -> None:
        """Let ``target`` exist as a mount point."""
        if os.path.lexists(target):
            return
        above = nearest(target)
        if not self.may_create_in(above):
            self.mimic(above)
        missing = os.path.dirname(target)
        os.makedirs(missing, exist_ok=True)
        if is_dir:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o666))

    def may_create_in(self, directory: str) -> bool:
        """Whether an entry made there stays inside the pod: below a mimicked directory, never bound from outside."""
        return directory in self.mimicked or self.device(directory) in {self.device(d) for d in self.mimicked}

    @staticmethod
    def device(directory: str) -> int:
        """Device number of a directory's file system; every tmpfs of ours has its own."""
        return os.stat(directory).st_dev

    def mimic(self, directory: str) -> None:
        """Cover a directory by a tmpfs that shows the same entries and takes new ones."""
        mode = stat.S_IMODE(os.stat(directory).st_mode)
        here = os.open(directory, os.O_PATH | os.O_CLOEXEC)
        mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode:o}")
        self.fill(here, directory)
        os.close(here)
        self.mimicked.add(directory)

    def cover(self, directory: str, shown: list[str]) -> None:
        """Cover a directory by a tmpfs that shows some paths of it, and nothing else."""
        held = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in shown]
        mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        for path, fd in held:
            is_dir = os.path.isdir(f"/proc/self/fd/{fd}")
            os.makedirs(path if is_dir else os.path.dirname(path), exist_ok=True)
            if not is_dir:
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
            bind_held(fd, path, path)
            os.close(fd)
            remount_read_only(path)
        self.mimicked.add(directory)

    def new_root(self, root: str) -> None:
        """A tmpfs root with every entry of the machine's root in it."""
        here = os.open("/", os.O_PATH | os.O_CLOEXEC)
        mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        self.fill(here, root)
        os.close(here)
        os.chdir(root)
        change_root()
        self.mimicked.add("/")

    @staticmethod
    def fill(original: int, directory: str) -> None:
        """Bind the entries of an open directory into another one; symbolic links are copied."""
        os.chdir(original)
        for entry in sorted(os.listdir(".")):
            place = os.path.join(directory, entry)
            try:
                kind = os.lstat(entry).st_mode
                if stat.S_ISLNK(kind):
                    os.symlink(os.readlink(entry), place)
                    continue
                if stat.S_ISDIR(kind):
                    os.mkdir(place)
                else:
                    os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))
                mount(entry, place, None, MS_BIND | MS_REC)
            except FileNotFoundError:
                continue  # went away meanwhile
        os.chdir("/")


def nearest(path: str) -> str:
    """The nearest existing directory above a path that does not exist; the path itself when it does."""
    path = os.path.realpath(path)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def freeze(directory: str) -> None:
    """Make every mount below a directory read-only, except those that programs cannot do without."""
    with open("/proc/self/mounts") as file:
        targets = [line.split()[1].encode().decode("unicode_escape") for line in file]
    for target in dict.fromkeys(targets):
        if target.startswith(directory) and not target.startswith(("/proc", "/dev", "/sys")):
            try:
                remount_read_only(target)
            except OSError:
                continue  # covered by a later mount


def remount_read_only(place: str) -> None:
    """Read-only, keeping the flags that this namespace may not clear."""
    flags = os.statvfs(place).f_flag
    kept = sum(value for bit, value in _KEPT.items() if flags & bit)
    mount(None, place, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def change_root() -> None:
    """pivot_root(".", "."): the working directory becomes the root, the old root is detached."""
    numbers = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
    number = numbers[os.uname().machine]
    if _libc.syscall(ctypes.c_long(number), b".", b"."):
        raise last_error("pivot_root")
    if _libc.umount2(b".", MNT_DETACH):
        raise last_error("umount of the old root")
    os.chdir("/")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Call the kernel's mount."""
    result = _libc.mount(
        os.fsencode(source) if source else None,
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode(),
    )
    if result:
        raise last_error(f"mount on {target}")


def last_error(what: str) -> OSError:
    """The error of the last call of the C library."""
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), what)
