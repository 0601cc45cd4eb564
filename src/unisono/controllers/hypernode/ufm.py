"""InfiniBand as NVIDIA's Unified Fabric Manager knows it: its ports that lead from computers to leaf switches."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from unisono.api.topology_sources import Question, SourceFailed, Switch
from unisono.controllers.hypernode.endpoint import base_url, verifies
from unisono.controllers.hypernode.fabric import connected, merged

UFM_SOURCE = "ufm"
_PORTS = "/ufmRest/resources/ports"
_OF_COMPUTERS = "Computer"
_LEAF, _SPINE = "leaf-hn", "spine-hn"


class _Port(msgspec.Struct):
    """What is read of a port; other fields are passed over."""

    description: str | None = None
    system_name: str | None = None
    peer_node_name: str | None = None


class Ufm:
    """Asks UFM for all ports."""

    async def discover(self, question: Question) -> Mapping[str, Switch]:
        """Leaf switches with their computers, below one spine; the names are Volcano's.

        Raises:
            SourceFailed: UFM does not answer, or with something else than ports.

        """
        url = base_url(question.config) + _PORTS
        if not {"username", "password"} <= question.credentials.keys():
            raise SourceFailed("credentials.secretRef: UFM wants a Secret with the keys username and password")
        verify = verifies(question.config)
        text = await question.fetch.get(url, credentials=question.credentials, verify=verify)
        try:
            return await asyncio.to_thread(switches_of, text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SourceFailed(f"{url} does not answer with a list of ports: {error}") from error


def switches_of(text: bytes) -> dict[str, Switch]:
    """The switches that a list of ports describes.

    Raises:
        msgspec.DecodeError: it is no list of ports.

    """
    leaves: dict[str, set[str]] = {}
    for port in msgspec.json.decode(text, type=list[_Port]):
        if _OF_COMPUTERS in (port.description or "") and connected(port.peer_node_name) and connected(port.system_name):
            assert port.peer_node_name
            assert port.system_name
            leaves.setdefault(port.peer_node_name, set()).add(port.system_name)
    found = {f"{_LEAF}-{number}": Switch(nodes=nodes) for number, (_, nodes) in enumerate(merged(leaves))}
    return {**found, _SPINE: Switch(switches=tuple(found))} if found else {}
