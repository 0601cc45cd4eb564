"""Users that pods run as where the agent is root: one per namespace, from a range without accounts."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from unisono.agent.layout import PodDir, RunDir, read_json, write_json
from unisono.agent.processes.launch import Identity, identity
from unisono.agent.volumes.mounts import Mount
from unisono.api.annotations import READABLE_DIRECTORIES, WRITABLE_DIRECTORIES
from unisono.api.core import Container, Namespace, Pod
from unisono.errors import AgentError

# systemd's list of user ids (UIDS-GIDS) leaves 1879048192 to 2147352575 to the administrator: above containers' ranges.
FIRST_UID, UIDS = 0x70000000, 1 << 16
# Pod Security's own label: who may write it may let pods of the namespace be root.
ENFORCE, PRIVILEGED = "pod-security.kubernetes.io/enforce", "privileged"
HOME = Path("/home/pod")
PYTHON = HOME / ".local/bin/python"
NAME = "unisono-pod"
# Each is a mount of every container of the namespace.
MOST_DIRECTORIES = 64


class UserBook:
    """Which namespace has which user; kept over restarts, because files of its volumes belong to that user.

    Args:
        path: JSON file that keeps the book.
        exists: whether there is a namespace of that name.
        size: how many users there are.
    """

    def __init__(self, path: Path, exists: Callable[[str], bool], size: int = UIDS) -> None:
        self._path, self._exists, self._size = path, exists, size
        # In the order in which they were given out.
        self._users: dict[str, int] = dict(read_json(path, {}))

    def user(self, namespace: str) -> int:
        """The user of a namespace. One of a deleted namespace is given out again only when no new one is left.

        Raises:
            AgentError: all are in use.
        """
        if (existing := self._users.get(namespace)) is not None:
            return existing
        uid = max(self._users.values(), default=FIRST_UID - 1) + 1
        if uid >= FIRST_UID + self._size:
            uid = self._recycled()
        self._users[namespace] = uid
        write_json(self._path, self._users)
        return uid

    def _recycled(self) -> int:
        for namespace in self._users:
            if not self._exists(namespace):
                return self._users.pop(namespace)
        raise AgentError(f"All {self._size} users for namespaces are in use: delete namespaces that are not needed.")


@dataclass(slots=True)
class PodUsers:
    """Decides as whom a container runs.

    Attributes:
        euid: the agent's user.
        book: users of namespaces; None runs pods as the agent's user.
        namespace: a namespace by its name, None when it is not known.
        keeps: folder of the control plane's own files, which no pod may ever write.
    """

    euid: int
    book: UserBook | None = None
    namespace: Callable[[str], Namespace | None] = lambda _: None
    keeps: Path | None = None

    @property
    def problem(self) -> str:
        """Why pods that run as users of their namespaces cannot run this Python; empty when they can."""
        closed = closed_python() if self.book is not None else None
        if closed is None:
            return ""
        return (
            f"Pods run as users of their namespaces, which may not read the Python that runs Unisono: run 'chmod -R "
            f"o+rX {closed}' (a checkout made with umask 077 needs it), or label the namespace {ENFORCE}={PRIVILEGED}."
        )

    def identity(self, pod: Pod, container: Container) -> Identity:
        """As whom a container runs.

        Raises:
            AgentError: it asks for an account that it may not have, or that the agent cannot become.
        """
        if self.book is None or self._is_privileged(pod):
            return identity(pod, container, self.euid)
        own = self.book.user(pod.metadata.namespace or "")
        asked = identity(pod, container, self.euid, own)
        user = own if asked.uid is None else asked.uid
        group = own if asked.gid is None else asked.gid
        fs_group = pod.spec.security_context.fs_group if pod.spec.security_context else None
        groups = list(dict.fromkeys([*(asked.groups or ()), *([] if fs_group is None else [fs_group])]))
        for kind, number in (("user", user), *(("group", each) for each in (group, *groups))):
            if number != own:
                _check(container, kind, number)
        return Identity(user, group, groups, own=True)

    def owner(self, pod: Pod) -> tuple[int, int] | None:
        """User and group of the files that the agent writes for a pod; None leaves them to the agent's user."""
        containers = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
        identities = {(who.uid, who.gid) for who in (self.identity(pod, each) for each in containers)}
        uid, gid = next(iter(identities))
        if len(identities) != 1 or uid is None or gid is None:
            return None
        return uid, gid

    def covers(self, pod: Pod) -> list[tuple[str, list[str]]]:
        """Folders that are closed to a pod's user, with the paths below them that it is shown (``hidden``).

        Raises:
            AgentError: the pod's namespace names too many.
        """
        if self.book is None or self._is_privileged(pod):
            return []
        return hidden([*interpreter_paths(), *self._named(pod, READABLE_DIRECTORIES), *self.writable(pod)])

    def writable(self, pod: Pod) -> list[str]:
        """Folders in which a pod's user has the rights of their owner.

        Raises:
            AgentError: the pod's namespace names too many, or the control plane's own files.
        """
        if self.book is None or self._is_privileged(pod):
            return []
        folders = [each for each in self._named(pod, WRITABLE_DIRECTORIES) if Path(each).is_dir()]
        for each in folders:
            if self.keeps is not None and overlap(Path(each), self.keeps):
                raise AgentError(
                    f"Namespace {pod.metadata.namespace} names {each} in {WRITABLE_DIRECTORIES}, where the control "
                    "plane keeps its own files: name folders apart from those."
                )
        # One that lies in another is mounted in it.
        return sorted(folders, key=lambda each: each.count("/"))

    def _named(self, pod: Pod, annotation: str) -> list[str]:
        namespace = self.namespace(pod.metadata.namespace or "")
        folders = directories(namespace, annotation) if namespace else []
        if len(folders) > MOST_DIRECTORIES:
            raise AgentError(
                f"Namespace {pod.metadata.namespace} names {len(folders)} folders in {annotation}: at most "
                f"{MOST_DIRECTORIES} can be shown to its pods; remove some, or name a folder above them."
            )
        return folders

    def _is_privileged(self, pod: Pod) -> bool:
        namespace = self.namespace(pod.metadata.namespace or "")
        return namespace is not None and is_privileged(namespace)


def own_places(who: Identity, owner: tuple[int, int] | None, directory: PodDir, run: RunDir) -> list[Mount]:
    """What a user needs that the machine does not know: a name, and a home directory with ``python`` in it.

    Args:
        who: the container's user.
        owner: user and group that all containers of the pod have; None when they differ.
        directory: the pod's directory.
        run: the container's run.
    """
    home = directory.home
    if not home.exists():
        link = home / PYTHON.relative_to(HOME)
        link.parent.mkdir(parents=True)
        link.symlink_to(sys.executable)
        if owner is not None:
            os.chown(home, *owner)
        home.chmod(0o777 if owner is None else 0o700)
    return [Mount(str(home), str(HOME)), *account_mounts(who, run)]


def interpreter_paths() -> list[str]:
    """What a program needs to run the Python that runs Unisono, with the packages beside it."""
    paths = [sys.prefix, sys.base_prefix, *sys.path[1:]]
    return sorted({str(each) for path in paths if path for each in (Path(path).absolute(), Path(path).resolve())})


def closed_python() -> str | None:
    """What of the Python that runs Unisono its own permissions keep from other users; None when nothing is kept.

    Folders above do not matter: what is closed there is shown (``hidden``).
    """
    shown = [Path(path) for path in interpreter_paths()]
    for file in (Path(sys.executable), Path(sys.executable).resolve(), Path(os.__file__), Path(__file__)):
        for each in (*reversed(file.parents), file):
            needed = stat.S_IROTH | (stat.S_IXOTH if each.is_dir() else 0)
            closed = each.exists() and each.stat().st_mode & needed != needed
            if closed and any(each.is_relative_to(path) for path in shown):
                return str(each)
    return None


def is_privileged(namespace: Namespace) -> bool:
    """Whether pods of a namespace may be root, or any account of the machine."""
    return (namespace.metadata.labels or {}).get(ENFORCE) == PRIVILEGED


def directories(namespace: Namespace, annotation: str = READABLE_DIRECTORIES) -> list[str]:
    """Folders that the pods of a namespace may read or write, as an administrator says."""
    text = (namespace.metadata.annotations or {}).get(annotation, "")
    return [os.path.normpath(each) for each in text.split(":") if each.startswith("/")]


def overlap(one: Path, other: Path) -> bool:
    """Whether one of two folders lies in the other, links followed."""
    one, other = one.resolve(), other.resolve()
    return one.is_relative_to(other) or other.is_relative_to(one)


def hidden(paths: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Which of some paths lie in folders that other users may not enter, such as root's home directory.

    Returns:
        Each such folder, with the existing paths below it.
    """
    paths_by_folder: dict[str, list[str]] = {}
    for path in sorted(paths):
        folder = closed_folder(Path(path))
        if folder is None or not Path(path).exists():
            continue
        listed = paths_by_folder.setdefault(str(folder), [])
        if not any(Path(path).is_relative_to(each) for each in listed):
            listed.append(path)
    return list(paths_by_folder.items())


def closed_folder(path: Path) -> Path | None:
    """The first folder on the way to a path that other users may not enter; None when they may reach it."""
    for folder in reversed(path.parents):
        if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def account_mounts(who: Identity, run: RunDir) -> list[Mount]:
    """The machine's list of accounts with the container's own user in it: programs look up their name and home.

    Args:
        who: the container's user.
        run: where the private files are kept.
    """
    lines = {
        "passwd": f"{NAME}:x:{who.uid}:{who.gid}:pod of Unisono:{HOME}:/bin/sh\n",
        "group": f"{NAME}:x:{who.gid}:\n",
    }
    mounts = []
    for name, line in lines.items():
        listed = Path("/etc") / name
        text = listed.read_text(errors="surrogateescape") if listed.exists() else ""
        own = run.path / name
        own.write_text(text if not text or text.endswith("\n") else text + "\n", errors="surrogateescape")
        with own.open("a") as file:
            file.write(line)
        own.chmod(0o644)
        mounts.append(Mount(str(own), str(listed), read_only=True))
    return mounts


def _check(container: Container, kind: str, number: int) -> None:
    """Refuse accounts of the machine, and users of other namespaces."""
    name = _account(kind, number)
    if name is None and not FIRST_UID <= number < FIRST_UID + UIDS:
        return
    whose = f"which is {name} on this machine" if name else "which belongs to another namespace"
    raise AgentError(
        f"Container {container.name} asks for {kind} {number}, {whose}: choose another number, or let an administrator "
        f"label the namespace {ENFORCE}={PRIVILEGED}."
    )


def _account(kind: str, number: int) -> str | None:
    try:
        return pwd.getpwuid(number).pw_name if kind == "user" else grp.getgrgid(number).gr_name
    except (KeyError, OverflowError):
        return None
