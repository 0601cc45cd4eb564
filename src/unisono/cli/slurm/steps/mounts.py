"""Folders at other paths, as ``--container-mounts`` has them, for tasks that run in the pod as it is.

Such a task sees the pod's files with the mounts among them: a root of its own, made of the folders of the real one, in
a mount namespace that ends with it. Nothing is made in the pod's own root.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Sequence

_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_OF_THE_MACHINE = ("/", "/home", "/mnt", "/opt", "/srv", "/usr", "/usr/local", "/var", "/var/tmp")  # noqa: S108 # nosec B108 # to be looked at
"""Where no folder is made for a mount: there the task sees a copy of the listing, with the mount in it."""

_MOUNT_FLAGS = """
    ro rw bind rbind private rprivate shared rshared slave rslave unbindable runbindable exec noexec suid nosuid dev
    nodev sync async dirsync atime noatime relatime norelatime diratime nodiratime strictatime nostrictatime silent
    nofail optional mkdir x-create x-move x-detach
    """
MOUNT_FLAGS = frozenset(_MOUNT_FLAGS.split())
"""Of the mounts of containers under Slurm; ``ro`` alone makes a difference here."""

Mount = tuple[str, str, bool]


def mounts_of(text: str) -> list[Mount]:
    """Source, target and whether it is read-only, of ``/a:/b:ro,/c``; flags are joined by ``+`` or stand one by one."""
    mounts = []
    for part in text.split(","):
        source, _, rest = part.partition(":")
        target, _, flags = rest.partition(":")
        if source:
            mounts.append((os.path.abspath(source), os.path.abspath(target or source), "ro" in flags.split("+")))
    return mounts


def text_of(mounts: Sequence[Mount]) -> str:
    """Mounts as the option has them."""
    return ",".join(f"{source}:{target}{':ro' if read_only else ''}" for source, target, read_only in mounts)


def lacking(mounts: Sequence[Mount]) -> list[Mount]:
    """Mounts that are not there already, because a volume of the pod is, or because both paths are one."""
    missing = []
    for source, target, read_only in mounts:
        there = os.path.exists(target)
        if os.path.exists(source) and not (there and os.path.samefile(source, target)):
            missing.append((source, target, read_only))
    return missing


def through(mounts: Sequence[Mount], folder: str) -> str:
    """The folder that a mount shows at this path."""
    for source, target, _ in sorted(mounts, key=lambda mount: -len(mount[1])):
        if folder == target or folder.startswith(target.rstrip("/") + "/"):
            return source.rstrip("/") + folder[len(target.rstrip("/")) :]
    return folder


def run_with(mounts: Sequence[Mount], folder: str, command: Sequence[str]) -> int:
    """Become the command, which starts in the folder and sees the mounts, or what is there where that cannot be.

    Returns only where the command cannot be started; answers the exit code then.
    """
    own = os.environ.get("SLURMD_NODENAME", "")
    try:
        _enter(mounts)
    except OSError as error:
        listed = ", ".join(f"{source} at {target}" for source, target, _ in mounts)
        print(f"srun: warning: {own}: {listed} cannot be shown here ({error}): the pod needs a volume", file=sys.stderr)
        folder = through(mounts, folder)
    try:
        os.chdir(folder)
    except OSError:
        print(f"srun: warning: {own}: there is no folder {folder}: the task starts in /tmp", file=sys.stderr)
        os.chdir("/tmp")  # noqa: S108 # nosec B108 # only to stand in, as Slurm does
    sys.stderr.flush()
    try:
        os.execvp(command[0], list(command))  # noqa: S606
    except OSError as error:
        print(f"srun: error: {command[0]}: {error.strerror or error}", file=sys.stderr, flush=True)
        return 127 if isinstance(error, FileNotFoundError) else 126


def _enter(mounts: Sequence[Mount]) -> None:
    """Change to a root with the mounts.

    Raises:
        OSError: the kernel, or what limits the pod, does not let it.
    """
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NEW_MOUNTS | (_NEW_USERS if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
                file.write(text)
    _mount("none", "/", 0, _RECURSIVE | _PRIVATE)
    root = tempfile.mkdtemp(dir=os.path.dirname(os.environ.get("UNISONO_BATCH_SOCKET", "")) or None)
    _show("/", root)
    for source, target, read_only in sorted(mounts, key=lambda mount: len(mount[1])):
        at = root + os.path.realpath(target)
        if not os.path.exists(at):
            _make_place(root, os.path.realpath(target), is_folder=os.path.isdir(source))
        _mount(source, at, 0, _BIND | _RECURSIVE)
        if read_only:
            _mount("none", at, 0, _BIND | _REMOUNT | _READ_ONLY)
    os.chroot(root)


def _show(real: str, at: str) -> None:
    """An empty file system at a place, with all that a real folder has."""
    names = sorted(os.listdir(real))
    _mount("tmpfs", at, "tmpfs", 0)
    for name in names:
        source, target = os.path.join(real, name), os.path.join(at, name)
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
            continue
        if os.path.isdir(source):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT, 0o600))
        _mount(source, target, 0, _BIND | _RECURSIVE)


def _make_place(root: str, target: str, is_folder: bool) -> None:
    """An empty folder or file below the new root, where a mount can stand."""
    above = os.path.dirname(target)
    while not os.path.exists(root + above):
        above = os.path.dirname(above)
    if above != "/" and above in _OF_THE_MACHINE:
        _show(above, root + above)
    at = root + target
    os.makedirs(at if is_folder else os.path.dirname(at), exist_ok=True)
    if not is_folder:
        os.close(os.open(at, os.O_CREAT, 0o600))


def _mount(source: str, target: str, kind: object, flags: int) -> None:
    _call("mount", source.encode(), target.encode(), str(kind).encode() if kind else None, flags, None)


def _call(name: str, *arguments: object) -> None:
    """A function of the C library that answers 0.

    Raises:
        OSError: it answers anything else.
    """
    library = ctypes.CDLL(None, use_errno=True)
    values = [ctypes.c_ulong(each) if isinstance(each, int) and name == "mount" else each for each in arguments]
    if getattr(library, name)(*values):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
