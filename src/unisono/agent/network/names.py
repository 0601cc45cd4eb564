"""Addresses of pods and services of this node, and the names by which pods find each other."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unisono.agent.layout import read_json, write_json
from unisono.api.annotations import SERVICE_ADDRESS
from unisono.api.core import Pod, Service
from unisono.errors import AgentError

# An IPv4 address of the loopback network for every pod and service of this node, kept over restarts of the agent.

NETWORK = ipaddress.IPv4Network("127.64.0.0/10")
SERVICE_NETWORK = ipaddress.IPv4Network("127.192.0.0/12")
"""Of services whose requests are taken for them; the blocks between are second addresses of pods."""
# Agents with different data directories start at different places, so that they do not meet.
_BLOCK = 4096


class AddressBook:
    """Which pod has which address.

    Args:
        path: JSON file that keeps the book.
        network: addresses to give out; the first and the last are left out.
    """

    def __init__(self, path: Path, network: ipaddress.IPv4Network = NETWORK) -> None:
        self._path, self._network = path, network
        self._by_uid: dict[str, str] = dict(read_json(path, {}))
        self._taken = set(self._by_uid.values())
        self._size = network.num_addresses - 2
        self._next = self._start()

    def get(self, uid: str) -> str | None:
        """The address of a pod that has one."""
        return self._by_uid.get(uid)

    def allocate(self, uid: str) -> str:
        """The pod's address, a free one when it has none yet; freed addresses come last again.

        Raises:
            AgentError: the network is full.
        """
        if (existing := self._by_uid.get(uid)) is not None:
            return existing
        for _ in range(self._size):
            address = str(self._network[1 + self._next % self._size])
            self._next += 1
            if address not in self._taken:
                break
        else:
            raise AgentError(f"All {self._size} pod addresses of {self._network} are in use: delete some pods.")
        self._by_uid[uid] = address
        self._taken.add(address)
        write_json(self._path, self._by_uid)
        return address

    def release(self, uid: str) -> None:
        """The pod is gone: its address may be given to another."""
        address = self._by_uid.pop(uid, None)
        if address is not None:
            self._taken.discard(address)
            write_json(self._path, self._by_uid)

    def keep_only(self, uids: set[str]) -> None:
        """Release the addresses of all other pods."""
        for uid in [uid for uid in self._by_uid if uid not in uids]:
            self.release(uid)

    def _start(self) -> int:
        if self._by_uid:
            latest = ipaddress.IPv4Address(list(self._by_uid.values())[-1])
            return int(latest) - int(self._network.network_address)
        digest = hashlib.sha256(str(self._path.resolve()).encode()).digest()
        return int.from_bytes(digest[:4], "big") % max(1, self._size // _BLOCK) * _BLOCK


# Names by which pods find each other, as lines of a hosts file. Pure.

CLUSTER_DOMAIN = "cluster.local"
MOST_OWN_LINES = 5_000
"""Lines for the Services of a namespace in the hosts files of its own pods: one for each pod that a Service selects."""
MOST_FOREIGN_LINES = 500
"""The same in the hosts files of the pods of others: every look-up of a name reads the file."""
_LOCAL = "127.0.0.1\tlocalhost"


@dataclass(frozen=True, slots=True)
class Peer:
    """A pod of this node that has an address."""

    namespace: str
    address: str
    hostname: str
    subdomain: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def hostname_of(pod: Pod) -> str:
    """The host name that a pod's containers see: its own, else the pod's name, at most 63 characters."""
    spec = pod.spec
    return (spec.hostname_override or spec.hostname or pod.metadata.name)[:63].rstrip("-.")


def peer_of(pod: Pod, address: str) -> Peer:
    """What others need to know of a pod to name it."""
    meta = pod.metadata
    return Peer(meta.namespace or "", address, hostname_of(pod), pod.spec.subdomain or "", meta.labels or {})


def pod_names(peer: Peer, namespace: str) -> list[str]:
    """Names of a pod as seen from ``namespace``, shortest first; none without a subdomain, as in Kubernetes."""
    if not peer.subdomain:
        return []
    return _variants(f"{peer.hostname}.{peer.subdomain}", peer.namespace, namespace)


def names_in_subdomain(peer: Peer) -> list[str]:
    """What the names of pods with the same subdomain end in, as seen from the pod's namespace, shortest first."""
    return _variants(peer.subdomain, peer.namespace, peer.namespace) if peer.subdomain else []


def service_names(service: Service, namespace: str) -> list[str]:
    """Names of a Service as seen from ``namespace``, shortest first."""
    return _variants(service.metadata.name, service.metadata.namespace or "", namespace)


def members(service: Service, peers: Iterable[Peer]) -> list[Peer]:
    """The pods that a Service selects; a Service without selector has none."""
    selector = service.spec.selector
    if not selector:
        return []
    required = selector.items()
    return [p for p in peers if p.namespace == service.metadata.namespace and required <= p.labels.items()]


def taken_address(service: Service) -> str | None:
    """The address at which requests of a Service are taken on this machine, None where its pods take them."""
    host = (service.metadata.annotations or {}).get(SERVICE_ADDRESS, "").rpartition(":")[0]
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        return None
    return str(address) if address.is_loopback else None


def shared_lines(namespace: str, peers: Iterable[Peer], services: Iterable[Service]) -> list[str]:
    """Lines that all pods of a namespace have in common: every pod and every Service of this node.

    Readiness is not looked at: a name leads to every pod that has an address, so that the members of a gang find each
    other while they start.

    Args:
        namespace: whose short names are meant.
        peers: all pods with an address, in the order in which they got it.
        services: all Services.
    """
    all_peers = list(peers)
    lines = [f"{p.address}\t{' '.join(names)}" for p in all_peers if (names := pod_names(p, namespace))]
    here: dict[str, list[Peer]] = {}
    for peer in all_peers:
        here.setdefault(peer.namespace, []).append(peer)
    left: dict[str, int] = {}
    for service in sorted(services, key=lambda s: s.key):
        where = service.metadata.namespace or ""
        if where not in here:
            continue
        room = left.setdefault(where, MOST_OWN_LINES if where == namespace else MOST_FOREIGN_LINES)
        if room > 0:
            joined = " ".join(service_names(service, namespace))
            if (taken := taken_address(service)) is not None:
                lines.append(f"{taken}\t{joined}")
                left[where] -= 1
                continue
            selected = members(service, here[where])[:room]
            lines.extend(f"{p.address}\t{joined}" for p in selected)
            # One that selects nothing was looked through all the same.
            left[where] -= max(1, len(selected))
    return lines


def hosts_file(own: Peer, shared: Iterable[str], aliases: Iterable[tuple[str, Iterable[str]]], machine: str) -> str:
    """The pod's /etc/hosts.

    Args:
        own: the pod itself; its bare host name leads to its own address.
        shared: ``shared_lines`` of its namespace.
        aliases: ``hostAliases`` of the pod: address and names.
        machine: the machine's own hosts file, whose names stay known.
    """
    own_names = [*pod_names(own, "")[::-1][:1], own.hostname]
    lines = [_LOCAL, f"{own.address}\t{' '.join(own_names)}"]
    lines.extend(f"{address}\t{' '.join(names)}" for address, names in aliases)
    lines.extend(shared)
    kept = [line for line in machine.splitlines() if _is_foreign(line, own.hostname)]
    return "\n".join([*lines, *kept]) + "\n"


def _is_foreign(line: str, hostname: str) -> bool:
    """A line of the machine's file that does not contradict the pod's own."""
    fields = line.partition("#")[0].split()
    return len(fields) > 1 and ":" not in fields[0] and not {"localhost", hostname} & set(fields[1:])


def _variants(name: str, own_namespace: str, seen_from: str) -> list[str]:
    scoped = [f"{name}.{own_namespace}", f"{name}.{own_namespace}.svc", f"{name}.{own_namespace}.svc.{CLUSTER_DOMAIN}"]
    return [name, *scoped] if own_namespace == seen_from else scoped


def replace_names(text: str, known: Mapping[str, str]) -> str:
    """Put addresses in the place of names, for machines on which pods cannot have a hosts file.

    A name without a dot may as well be an ordinary word (a Service ``train`` and ``--mode train``): it is taken for a
    name only where a port follows it or a URL has its host: ``train:80``, ``//train``, ``user@train``.

    Args:
        text: value of a variable or an argument.
        known: address by name; whole names are replaced, longest first.
    """
    for name in sorted(known, key=len, reverse=True):
        if name in text:
            text = _replace_word(text, name, known[name])
    return text


def _replace_word(text: str, word: str, value: str) -> str:
    out, index = [], 0
    while (start := text.find(word, index)) >= 0:
        end = start + len(word)
        whole = not _in_name(text[start - 1 : start]) and not _in_name(text[end : end + 1])
        meant = "." in word or _is_host(text[:start], text[end : end + 2])
        out.append(text[index:start] + (value if whole and meant else word))
        index = end
    return "".join(out) + text[index:]


def _is_host(before: str, after: str) -> bool:
    return before.endswith(("//", "@")) or (after[:1] == ":" and after[1:].isdigit())


def _in_name(character: str) -> bool:
    return character.isalnum() or (character in ("-", ".", "_") and character != "")


def table(namespace: str, peers: Iterable[Peer], services: Iterable[Service]) -> dict[str, str]:
    """Address by name, the first one where a name has several."""
    addresses: dict[str, str] = {}
    for line in shared_lines(namespace, peers, services):
        address, _, names = line.partition("\t")
        for name in names.split():
            addresses.setdefault(name, address)
    return addresses
