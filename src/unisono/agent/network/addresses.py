"""An IPv4 address of the loopback network for every pod and service of this node, kept over restarts of the agent."""

from __future__ import annotations

import hashlib
import ipaddress
from pathlib import Path

from unisono.agent.files import read_json, write_json
from unisono.errors import AgentError

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
        if (known := self._by_uid.get(uid)) is not None:
            return known
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
