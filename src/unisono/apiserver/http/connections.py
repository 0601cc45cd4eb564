"""Connections and requests in progress: how many there may be, whose they are, and which one gives way."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager

from unisono.api.annotations import SERVICE_ACCOUNTS, tenant
from unisono.api.keys import MASTERS, NODES_GROUP
from unisono.apiserver.access.user import ANONYMOUS, User
from unisono.apiserver.flow_control import Limits

# Who holds the server's connections, and which one is dropped when too many are open.
#
# A connection belongs to its address until a request on it has named a user: it is a newcomer. Connections that trickle
# their TLS handshake or their headers stay newcomers, so they compete with each other and not with users. When a bound
# is reached, the one that holds the most gives one up: a newcomer that had its time, then an idle connection, then the
# oldest one. Users of one tenant count together. So there is always a way in, also for an administrator.

# A newcomer that was given so long is dropped for another one: for TLS, and after that for the head of a request
# (seconds). A client that has agreed on TLS has its request ready.
_HANDSHAKE_PATIENCE = 5.0
_HEAD_PATIENCE = 1.0
# How long to wait before asking for room again.
_LEAST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25

Owner = tuple[str, str]


class Connection:
    """One open connection.

    Attributes:
        owner: ``("address", ...)`` of a newcomer, ``("user", ...)`` afterwards.
        newcomer: no request on it has named a user.
        busy: a request on it is in progress.
        silent: no request has come yet.
        patience: when a newcomer may be dropped for another one, by the book's clock.
        exempt: of an administrator, whose requests are not broken off for others.
        close: ends it at once.
    """

    __slots__ = ("busy", "close", "exempt", "key", "newcomer", "owner", "patience", "silent")

    def __init__(self, key: Hashable, owner: Owner, patience: float, close: Callable[[], None]) -> None:
        self.key, self.owner, self.patience, self.close = key, owner, patience, close
        self.newcomer, self.silent, self.busy, self.exempt = True, True, False, False


class Connections:
    """The open connections of one server, each by a key; those that are not known here have no bounds.

    Args:
        limits: how many there may be.
        clock: seconds of a clock that only goes forward.
        refused: hears the cause of each connection that is dropped or refused.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float], refused: Callable[[str], None]) -> None:
        self._limits, self._clock, self._refused = limits, clock, refused
        # By owner, each oldest first.
        self._of: dict[Owner, dict[Connection, None]] = {}
        self._known: dict[Hashable, Connection] = {}
        self._newcomers = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def newcomers(self) -> int:
        """Open connections whose user is not known."""
        return self._newcomers

    def room(self) -> float:
        """Seconds to wait before a connection may be accepted, 0 for none; makes room where it can."""
        if self._newcomers >= self._limits.newcomers:
            if not self._drop_newcomer(self._of, "newcomers"):
                return self._pause()
        elif len(self._known) >= self._limits.connections and not (
            self._drop_newcomer(self._of, "connections") or self._drop_of_largest()
        ):
            return _LONGEST_PAUSE
        return 0.0

    def admit(self, key: Hashable, address: str, close: Callable[[], None]) -> bool:
        """Take a connection from ``address``; False where that one has too many newcomers already."""
        owner = ("address", network(address))
        held = self._of.get(owner, {})
        if (
            len(held) >= self._limits.newcomers_of_address
            and not is_local(address)
            and not self._drop_newcomer((owner,), "address")
        ):
            self._refused("address")
            return False
        connection = Connection(key, owner, self._clock() + _HANDSHAKE_PATIENCE, close)
        self._known[key] = connection
        self._put(connection, owner)
        self._newcomers += 1
        return True

    def secured(self, key: Hashable) -> None:
        """TLS is agreed: the first request is due."""
        if (connection := self._known.get(key)) is not None:
            connection.patience = self._clock() + _HEAD_PATIENCE

    def silent(self, key: Hashable) -> bool:
        """Whether no request has come yet."""
        connection = self._known.get(key)
        return connection is not None and connection.silent

    def begins(self, key: Hashable) -> None:
        """A request has come."""
        if (connection := self._known.get(key)) is not None:
            connection.busy, connection.silent = True, False

    def ends(self, key: Hashable) -> None:
        """A request was answered."""
        if (connection := self._known.get(key)) is not None:
            connection.busy, connection.patience = False, self._clock()

    def belongs(self, key: Hashable, user: User) -> bool:
        """Note whose request came; False when that user has too many connections."""
        connection, owner = self._known.get(key), ("user", user.name)
        if connection is None or connection.owner == owner or user is ANONYMOUS:
            return True
        exempt = MASTERS in user.groups
        held = self._of.get(owner, {})
        if len(held) >= self._limits.connections_of_one and not exempt:
            spare = _idle(held)
            if spare is None:
                self._refused("user_connections")
                return False
            self._drop(spare, "user_connections")
        self._take(connection)
        self._newcomers -= connection.newcomer
        connection.newcomer, connection.exempt = False, exempt
        self._put(connection, owner)
        return True

    def drop(self, key: Hashable, cause: str) -> None:
        """End a connection."""
        if (connection := self._known.get(key)) is not None:
            self._drop(connection, cause)

    def leave(self, key: Hashable) -> None:
        """The connection has ended; can be told twice."""
        if (connection := self._known.pop(key, None)) is not None:
            self._take(connection)
            self._newcomers -= connection.newcomer

    def _put(self, connection: Connection, owner: Owner) -> None:
        connection.owner = owner
        self._of.setdefault(owner, {})[connection] = None

    def _take(self, connection: Connection) -> None:
        held = self._of[connection.owner]
        del held[connection]
        if not held:
            del self._of[connection.owner]

    def _drop_newcomer(self, owners: Iterable[Owner], cause: str) -> bool:
        now = self._clock()
        newcomer: Connection | None = None
        most = 0
        for owner in owners:
            held = self._of[owner]
            if owner[0] == "address" and len(held) > most:
                spare = next((each for each in held if not each.busy and each.patience <= now), None)
                if spare is not None:
                    newcomer, most = spare, len(held)
        if newcomer is not None:
            self._drop(newcomer, cause)
        return newcomer is not None

    def _drop_of_largest(self) -> bool:
        of_tenant: dict[str, list[dict[Connection, None]]] = {}
        for owner, held in self._of.items():
            if owner[0] == "user":
                of_tenant.setdefault(tenant(owner[1]), []).append(held)
        largest = sorted(of_tenant.values(), key=lambda users: sum(map(len, users)), reverse=True)
        users = [held for each in largest for held in sorted(each, key=len, reverse=True)]
        candidate = next((spare for held in users if (spare := _idle(held))), None) or next(
            (oldest for held in users if not (oldest := next(iter(held))).exempt), None
        )
        if candidate is not None:
            self._drop(candidate, "connections")
        return candidate is not None

    def _drop(self, connection: Connection, cause: str) -> None:
        self.leave(connection.key)
        self._refused(cause)
        connection.close()

    def _pause(self) -> float:
        """Until the first newcomer may be dropped."""
        now = self._clock()
        waits = (
            each.patience - now
            for owner, held in self._of.items()
            if owner[0] == "address"
            for each in held
            if not each.busy
        )
        return min(_LONGEST_PAUSE, max(_LEAST_PAUSE, min(waits, default=_LONGEST_PAUSE)))


def _idle(held: Iterable[Connection]) -> Connection | None:
    return next((each for each in held if not each.busy), None)


def network(address: str) -> str:
    """What newcomers are counted by: the address, of IPv6 its /64 network, of which one machine has all addresses."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
    return address


def is_local(address: str) -> bool:
    """Whether a client is on this machine: all of its users share the address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return True
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped.is_loopback
    return parsed.is_loopback


# How many requests and streams are in progress, in all and of each user; one too many is answered 429.
#
# After Kubernetes' API priority and fairness: components of this control plane, administrators and nodes, other users,
# and unknown clients have levels of their own, so that the last cannot keep the first from being served.

_OF_TENANT = 3.0
_SYSTEM = frozenset({MASTERS, NODES_GROUP, f"{SERVICE_ACCOUNTS}:kube-system"})


class Quota:
    """At most ``total`` at a time, ``each`` of one user, and of one tenant three times what nobody has.

    A tenant has as many users as it likes. So one takes three quarters at most, several leave less to each other, and
    there is always room for a tenant that has nothing yet.
    """

    def __init__(self, total: int, each: int) -> None:
        self._total, self._each = total, each
        # Where one user may have more than three quarters, so may its tenant; where all, there is no bound.
        self._factor = max(_OF_TENANT, each / (total - each)) if each < total else 0.0
        self._taken = 0
        self._of: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()

    def full(self, user: str, tenant: str) -> str:
        """``all``, ``tenant`` or ``user`` for the bound that is reached; empty where there is room."""
        if self._of[user] >= self._each:
            return "user"
        free = self._total - self._taken
        if free <= 0:
            return "all"
        return "tenant" if self._factor and self._of_tenant[tenant] >= self._factor * free else ""

    @contextmanager
    def one(self, user: str, tenant: str) -> Iterator[None]:
        """Count one more for as long as it lasts."""
        counts = ((self._of, user), (self._of_tenant, tenant))
        self._taken += 1
        for counter, name in counts:
            counter[name] += 1
        try:
            yield
        finally:
            self._taken -= 1
            for counter, name in counts:
                counter[name] -= 1
                if not counter[name]:
                    del counter[name]


class FlowControl:
    """The quotas of one server.

    Args:
        limits: how much there may be.
    """

    def __init__(self, limits: Limits) -> None:
        most, each = limits.in_flight, limits.in_flight_of_one
        self._own = Quota(most, most)
        self._requests = Quota(most, most)
        self._levels = {
            "system": Quota(most, most),
            "users": Quota(max(1, most * 3 // 4), each),
            "unknown": Quota(max(1, most // 8), most),
        }
        self._streams = Quota(limits.streams, limits.streams_of_one)
        self._kinds = {
            "log": Quota(limits.logs, limits.logs_of_one),
            "connect": Quota(limits.sessions, limits.sessions_of_one),
        }

    def quotas(self, verb: str, user: User, *, own: bool) -> list[tuple[str, Quota]]:
        """What a request counts against, each with the name under which a refusal is counted.

        Args:
            verb: as Kubernetes calls it, or ``log`` and ``connect``.
            user: who asks.
            own: by the socket for components of this control plane.
        """
        if verb in STREAMS:
            stream_quotas = [("streams", self._streams)]
            if verb in self._kinds:
                stream_quotas.append((_NAMES[verb], self._kinds[verb]))
            return stream_quotas
        if own:
            return [("requests", self._own)]
        return [("requests", self._requests), ("requests", self._levels[level(user)])]


STREAMS = frozenset({"watch", "log", "connect"})
_NAMES = {"log": "logs", "connect": "sessions"}


def level(user: User) -> str:
    """Whose requests are counted together."""
    if user is ANONYMOUS:
        return "unknown"
    return "system" if _SYSTEM.intersection(user.groups) else "users"
