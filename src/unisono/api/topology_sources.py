"""What discovers the network of a cluster: the interface of sources, also of those that other packages bring.

A source is asked from time to time and answers with switches, of which the controller makes HyperNodes. A package
offers one as an entry point of group ``unisono.topology_sources``, under the name that users write as ``source``: a
class without arguments, or a function that makes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from unisono.errors import UnisonoError

GROUP: Final = "unisono.topology_sources"
MOST_BYTES: Final = 100 << 20
"""Of one answer of a server."""


class SourceFailed(UnisonoError):
    """The network cannot be told now; the sentence says why, for the user who configured the source."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch, or several that serve as one.

    Attributes:
        nodes: below it directly, by the names that the network knows them by.
        switches: below it directly.
    """

    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


class Fetch(Protocol):
    """Asks servers over the network."""

    async def get(
        self, url: str, *, credentials: Mapping[str, str], verify: bool = True, most_bytes: int = MOST_BYTES
    ) -> bytes:
        """The body of a GET that is answered with status 200.

        Args:
            url: with ``http`` or ``https``.
            credentials: ``username`` and ``password``, or ``token``; ``ca.crt`` is who signs the server's certificate.
            verify: whether the server must show a certificate of a trusted authority.
            most_bytes: longer answers are refused.

        Raises:
            SourceFailed: it does not answer in time, or otherwise.
        """
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """One look at the network.

    Attributes:
        config: what stands below ``config`` of the source, as it was written.
        nodes: names of the cluster's nodes.
        credentials: of the Secret that the configuration names, as texts; empty without one.
        fetch: asks servers, within bounds.
    """

    config: Mapping[str, Any]
    nodes: frozenset[str]
    fetch: Fetch
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


class TopologySource(Protocol):
    """One way to learn of the network."""

    async def discover(self, question: Question) -> Mapping[str, Switch]:
        """All switches by name; names are such as HyperNodes can have.

        Nodes that are not the cluster's may be among them; they are left out. What hangs is given up.

        Raises:
            SourceFailed: the network cannot be told now; what was found before stays.
        """
        ...
