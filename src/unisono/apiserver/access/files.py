"""What the access to a server stands in: addresses to listen on, and files of secrets, written whole or not at all."""

from __future__ import annotations

import base64
import contextlib
import errno
import ipaddress
import os
import socket
from pathlib import Path

from unisono.api.yaml import dump
from unisono.errors import ConfigError, system_reason

# Addresses to listen on: which stay on this machine, and by which names others reach it.

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of_machine(host: str) -> tuple[str, ...]:
    """Names and addresses by which others may call a server that listens on ``host``, for its certificate."""
    name = socket.gethostname()
    names = dict.fromkeys((*LOOPBACK_NAMES, host, name, socket.getfqdn()))
    with contextlib.suppress(OSError):
        names |= dict.fromkeys(str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(name, None))
    return tuple(one for one in names if one)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes any that is free.

    Raises:
        ConfigError: the address is taken, or not one of this machine.
    """
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=256
        )
    except OSError as error:
        reason = system_reason(error)
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise ConfigError(f"cannot listen on {host}:{port} ({reason}); choose another port", key="port") from error
        raise ConfigError(
            f"cannot listen on {host} ({reason}); choose an address of this machine", key="host"
        ) from error


# Files that hold secrets: written whole or not at all, with their mode from the first byte on.


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace ``path`` atomically and durably; a reader sees the old content or the new, never a part.

    Raises:
        OSError: the file cannot be written; the old content is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def private_directory(path: Path) -> Path:
    """Make ``path`` a directory that only its owner enters."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


# The kubeconfig file with which kubectl and every other client find and trust the server.


# Of the cluster, the user and the context.
_NAME = "unisono"


def write_kubeconfig(path: Path, server_url: str, ca_pem: bytes, token: str) -> None:
    """Write a kubeconfig of one cluster, one user and one context, readable by its owner only.

    Args:
        path: where to; replaced atomically, mode 0600.
        server_url: ``https://host:port``.
        ca_pem: certificate of the authority that signed the server's certificate.
        token: bearer token of the user.

    Raises:
        OSError: the file cannot be written.
    """
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": _NAME,
                "cluster": {"server": server_url, "certificate-authority-data": base64.b64encode(ca_pem).decode()},
            }
        ],
        "users": [{"name": _NAME, "user": {"token": token}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "current-context": _NAME,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, dump(config).encode())
