"""Bounds on what clients of the API may take: sizes, times, connections, requests in progress, streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from unisono.errors import ConfigError

NAMESPACE_BYTES = 512 * 1024 * 1024
"""Bytes that the objects of one namespace may take: about 150,000 pods, a quarter of what etcd may hold in all."""
_MEANINGS = "docs/kubernetes-api.md lists them"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that hold for every client; ``unisono up --api-limit NAME=VALUE`` changes them.

    Attributes:
        namespace_bytes: what the stored objects of one namespace may take.
        body_bytes: largest body, after decompression.
        body_seconds: time in which a body must have arrived.
        write_seconds: time in which a client must take a piece of an answer before its connection is dropped.
        in_flight: requests in progress of all users; streams and the control plane's own components are not counted.
        in_flight_of_one: requests in progress of one user.
        streams: watches, followed logs and sessions.
        streams_of_one: the same of one user.
        logs: logs being read, each of which holds a file open.
        logs_of_one: the same of one user.
        sessions: exec, attach and port-forward.
        sessions_of_one: the same of one user.
        session_idle_seconds: time without a byte in either direction after which a session ends.
        forwarded: connections to ports of pods, in all sessions.
        forwarded_of_one: the same in one session.
        connections: open connections.
        connections_of_one: open connections of one user.
        newcomers: open connections whose user is not known.
        newcomers_of_address: the same from one address of another machine; of IPv6, from one /64 network.
        handshake_seconds: time in which TLS must be agreed.
        head_seconds: time after that in which the head of the first request must have arrived.
        idle_seconds: time after an answer in which the head of the next request must have arrived.

    """

    namespace_bytes: int = NAMESPACE_BYTES
    body_bytes: int = 3 * 1024 * 1024
    body_seconds: float = 30.0
    write_seconds: float = 30.0
    in_flight: int = 400
    in_flight_of_one: int = 100
    streams: int = 2000
    streams_of_one: int = 1500
    logs: int = 500
    logs_of_one: int = 200
    sessions: int = 200
    sessions_of_one: int = 50
    session_idle_seconds: float = 4 * 3600.0
    forwarded: int = 500
    forwarded_of_one: int = 100
    connections: int = 4000
    connections_of_one: int = 1800
    newcomers: int = 1000
    newcomers_of_address: int = 100
    handshake_seconds: float = 10.0
    head_seconds: float = 10.0
    idle_seconds: float = 120.0

    def changed(self, settings: Iterable[str]) -> Limits:
        """These limits with ``NAME=VALUE`` applied; names may be written with dashes.

        Raises:
            ConfigError: there is no such limit, or the value is not a positive number.

        """
        kinds = get_type_hints(Limits)
        values: dict[str, float] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            name = name.strip().replace("-", "_")
            if name not in kinds or not equals:
                raise ConfigError(f'"{setting}" is not a limit of the API as NAME=VALUE; {_MEANINGS}', key="api-limit")
            try:
                values[name] = kinds[name](text.strip())
            except ValueError:
                values[name] = 0
            if not 0 < values[name] < float("inf"):
                what = "whole number" if kinds[name] is int else "number"
                raise ConfigError(f'{name}: "{text}" must be a {what} above 0', key="api-limit")
        return replace(self, **values)  # type: ignore[arg-type]  # each is of its field's type

    def within(self, files: int) -> Limits:
        """These limits where the process may have ``files`` open files.

        At most half are for connections and three sixteenths for logs, sessions and forwarded connections; the rest is
        left to the store, the log and the control plane's own components.
        """
        connections = min(self.connections, max(1, files // 2))
        share = max(1, files // 16)
        bounded = {
            "connections": connections,
            "connections_of_one": min(self.connections_of_one, max(1, connections * 3 // 4)),
            "newcomers": min(self.newcomers, max(1, connections // 4)),
            "streams": min(self.streams, max(1, connections * 3 // 4)),
            "streams_of_one": min(self.streams_of_one, max(1, connections // 2)),
            "logs": min(self.logs, share),
            "logs_of_one": min(self.logs_of_one, max(1, share // 2)),
            # A session has a file for each of its streams.
            "sessions": min(self.sessions, max(1, share // 4)),
            "sessions_of_one": min(self.sessions_of_one, max(1, share // 8)),
            "forwarded": min(self.forwarded, share),
            "forwarded_of_one": min(self.forwarded_of_one, max(1, share // 2)),
        }
        return replace(self, **bounded)


# How deep JSON values of users may be nested.

DEEPEST = 200
"""Levels of a value. Schemas of real definitions have up to 60."""


def too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than all code that reads it recursively can handle."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            return True
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below.extend(one for one in each.values() if isinstance(one, dict | list))
            elif isinstance(each, list):
                below.extend(one for one in each if isinstance(one, dict | list))
        level = below
    return False
