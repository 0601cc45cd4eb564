"""From a container of a manifest to what the shim is told to run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unisono.agent.layout import RunDir
from unisono.agent.volumes.mounts import Mount
from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.core import Container, Pod
from unisono.errors import AgentError

_LARGEST_ID = (1 << 31) - 1
LOG_BYTES = 10 << 20
LOG_FILES = 5
TERMINATION_PATH = "/dev/termination-log"
# Taken over from the agent's environment: who and where the user is, never what only the agent should know.
_INHERITED = (
    "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "XDG_CACHE_HOME", "HF_HOME",
)  # fmt: skip
# Of these, what another user cannot use.
_PERSONAL = ("HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME")


@dataclass(frozen=True, slots=True)
class Identity:
    """User and groups of a process; None keeps the agent's.

    Attributes:
        own: the process must not reach what is the agent's: it gets no new privileges, and paths that its manifest
            names are opened with its own rights.
    """

    uid: int | None = None
    gid: int | None = None
    groups: list[int] | None = None
    own: bool = False


def python_folder(data_dir: Path, interpreter: Path) -> Path:
    """A folder in which ``python`` is the interpreter that runs Unisono: its own, or one of ours that links to it.

    Args:
        data_dir: where a folder can be made; Pythons of distributions have no ``python`` beside ``python3``.
        interpreter: the interpreter that runs Unisono.
    """
    if (interpreter.parent / "python").exists():
        return interpreter.parent
    folder = data_dir / "bin"
    folder.mkdir(exist_ok=True)
    link = folder / "python"
    if not link.is_symlink() or link.readlink() != interpreter:
        link.unlink(missing_ok=True)
        link.symlink_to(interpreter)
    return folder


def base_environment(
    agent: Mapping[str, str], hostname: str, python: Path | None = None, home: tuple[str, Path] | None = None
) -> dict[str, str]:
    """What a container has before its manifest's variables: a few of the agent's own.

    The folder of the Python interpreter that runs Unisono comes first in PATH, so that ``python`` in a manifest has
    the packages that its user installed beside Unisono.

    Args:
        agent: the agent's environment.
        hostname: the pod's host name.
        python: that folder (``python_folder``); None takes the interpreter's.
        home: name and home directory of a user other than the agent's.
    """
    variables = {name: agent[name] for name in _INHERITED if name in agent and (home is None or name not in _PERSONAL)}
    if home is not None:
        variables |= {"USER": home[0], "LOGNAME": home[0], "HOME": str(home[1])}
    variables |= {name: value for name, value in agent.items() if name.startswith("LC_")}
    folders = [str(python or Path(sys.executable).parent), *agent.get("PATH", os.defpath).split(":")]
    variables["PATH"] = ":".join(dict.fromkeys(folder for folder in folders if folder))
    variables["HOSTNAME"] = hostname
    return variables


def working_directories(pod: Pod, container: Container, *defaults: Path) -> list[str]:
    """``workingDir``, else the folder of the manifest (an annotation of ``unisono run``), else defaults.

    Returns:
        Directories of which the container gets the first that it may enter.
    """
    asked = container.working_dir or (pod.metadata.annotations or {}).get(WORKING_DIRECTORY)
    return [asked] if asked else [str(each) for each in defaults]


def identity(pod: Pod, container: Container, euid: int, default: int | None = None) -> Identity:
    """Whom the security contexts ask to run as.

    Args:
        pod: the pod.
        container: one of its containers.
        euid: the agent's user.
        default: as whom it runs where nothing is asked for; None is the agent's user.

    Raises:
        AgentError: the agent may not become that user, or root is asked for and forbidden at once.
    """
    for_pod, own = pod.spec.security_context, container.security_context
    uid = _first(own.run_as_user if own else None, for_pod.run_as_user if for_pod else None)
    gid = _first(own.run_as_group if own else None, for_pod.run_as_group if for_pod else None)
    non_root = _first(own.run_as_non_root if own else None, for_pod.run_as_non_root if for_pod else None)
    for name, number in _asked_ids(pod, uid, gid):
        # -1 means "leave it as it is" to the kernel.
        if not 0 <= number <= _LARGEST_ID:
            raise AgentError(
                f"Container {container.name} asks for {name} {number}: it must be between 0 and {_LARGEST_ID}."
            )
    fallback = euid if default is None else default
    if non_root and (fallback if uid is None else uid) == 0:
        raise AgentError(
            f"Container {container.name} has runAsNonRoot and would run as root: set runAsUser to a user other than 0."
        )
    if euid != 0:
        if uid not in (None, euid):
            raise AgentError(
                f"Container {container.name} asks for user {uid}, but the node agent runs as user {euid} and cannot "
                "change that: remove runAsUser, or run the agent as root."
            )
        return Identity()
    groups = for_pod.supplemental_groups if for_pod else None
    if uid is None and gid is None and groups is None:
        return Identity()
    extra = [*(groups or ()), *([for_pod.fs_group] if for_pod and for_pod.fs_group is not None else ())]
    return Identity(uid, gid, extra)


def _asked_ids(pod: Pod, uid: int | None, gid: int | None) -> list[tuple[str, int]]:
    security = pod.spec.security_context
    ids = [("runAsUser", uid), ("runAsGroup", gid), ("fsGroup", security.fs_group if security else None)]
    ids += [("the supplemental group", each) for each in (security.supplemental_groups if security else None) or ()]
    return [(name, number) for name, number in ids if number is not None]


def shim_spec(
    *,
    run: RunDir,
    argv: Sequence[str],
    environment: Mapping[str, str],
    cwd: Sequence[str],
    mounts: Sequence[Mount],
    hostname: str,
    isolation: str,
    cgroups: Sequence[Path],
    who: Identity,
    covers: Sequence[tuple[str, list[str]]],
    writable: Sequence[str],
    read_only_root: bool,
    container: Container,
    affinity: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The shim's spec: only values that ``marshal`` knows."""
    security = container.security_context
    return {
        "dir": str(run.path),
        "log": str(run.log),
        "log_bytes": LOG_BYTES,
        "log_files": LOG_FILES,
        "argv": list(argv),
        "env": dict(environment),
        "cwd": list(cwd),
        "mounts": [(m.source, m.target, m.read_only, m.sub_path, m.by_user and who.own) for m in mounts],
        "covers": list(covers),
        "writable": list(writable),
        "hostname": hostname,
        "isolation": isolation,
        "cgroups": [str(each) for each in cgroups],
        "uid": who.uid,
        "gid": who.gid,
        "groups": who.groups,
        "own_user": who.own,
        "no_new_privileges": who.own or bool(security and security.allow_privilege_escalation is False),
        "read_only_root": read_only_root,
        "stdin": bool(container.stdin),
        "stdin_once": bool(container.stdin_once),
        "tty": bool(container.tty),
        "affinity": None if affinity is None else list(affinity),
    }


def without_mounts(
    container: Container, mounts: Sequence[Mount], argv: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Command and variables for a machine without mount namespaces: mount paths give way to the real directories.

    Raises:
        AgentError: a volume is mounted where neither the machine has it nor the command names it.
    """
    replaced = [m for m in (_with_sub_path(m) for m in mounts) if m.source != m.target]
    texts = [*argv, *(v.value or "" for v in container.env or ())]
    for mount in replaced:
        # Files that the agent writes (ConfigMaps, Secrets) are a convenience that most programs do not read.
        if not mount.read_only and not any(mount.target in text for text in texts):
            raise AgentError(
                f"Container {container.name} mounts a volume at {mount.target}, and this machine allows "
                "no mounts: name the path in the command or a variable, or use a hostPath with that very path."
            )
    ordered = sorted(replaced, key=lambda m: -len(m.target))
    return [_real(text, ordered) for text in argv], {k: _real(v, ordered) for k, v in environment.items()}


def _with_sub_path(mount: Mount) -> Mount:
    """A mount of the directory itself, made if need be: there is nothing that a shim could bind."""
    if not mount.sub_path:
        return mount
    source = Path(mount.source) / mount.sub_path
    if not source.exists():
        source.mkdir(parents=True)
    return replace(mount, source=str(source), sub_path="")


def _real(text: str, mounts: Sequence[Mount]) -> str:
    for mount in mounts:
        text = text.replace(mount.target, mount.source)
    return text


def _first(own: Any, fallback: Any) -> Any:
    return fallback if own is None else own
