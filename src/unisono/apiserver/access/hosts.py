"""Addresses to listen on: which stay on this machine, and by which names others reach it."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket

from unisono.errors import ConfigError, system_reason

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
