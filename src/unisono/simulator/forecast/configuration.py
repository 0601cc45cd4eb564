"""The configuration that the scheduler of a live cluster follows, as far as it can be read from here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from unisono.api.annotations import CONFIGURATION_SOURCE, CYCLES_LEASE
from unisono.api.keys import CONFIG_MAP_NAMES, CONFIG_MAP_NAMESPACE
from unisono.api.kinds import CONFIG_MAPS, LEASES
from unisono.engine.config_file.reader import DEFAULT_TEXT
from unisono.errors import ApiError, ConfigError
from unisono.kube.client import Client
from unisono.scheduler.config_advice import INSTALLED_KEY, INSTALLED_NAME
from unisono.scheduler.config_map import holds_configuration, text_of

_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Followed:
    """A configuration.

    Attributes:
        text: as it is written.
        name: where it stands, in words.
        hidden: where the one in force stands, when it cannot be read and this is the default one; else empty.

    """

    text: str
    name: str
    hidden: str = ""


async def configuration_in_force(client: Client, namespaces: tuple[str, ...] = ()) -> Followed:
    """What the scheduler follows, in the order in which it looks itself.

    1. A ConfigMap of namespace ``volcano-system`` where users of Volcano keep it: it comes before all others.
    2. The ConfigMap of the installation, in one of ``namespaces``.
    3. The file that the scheduler names in the Lease of its heartbeat, where it can be read on this machine: so for
       ``unisono up --scheduler-config FILE``.
    4. The default one. It is the answer as well where the one in force cannot be read; ``hidden`` says so then.

    Args:
        client: with the credentials of the one who asks.
        namespaces: where the installation may be.

    """
    found, hidden = await configuration_in_maps(client, namespaces)
    if found is not None:
        return found
    source = await _source(client)
    if source and Path(source).is_absolute() and not hidden:
        text = await asyncio.to_thread(_read, Path(source))
        if text is not None:
            return Followed(text, source)
        hidden = source
    return Followed(DEFAULT_TEXT, "default configuration", hidden)


async def configuration_in_maps(client: Client, namespaces: tuple[str, ...] = ()) -> tuple[Followed | None, str]:
    """The first that a ConfigMap holds, and the place of the first ConfigMap that could not be read; else empty.

    Args:
        client: with the credentials of the one who asks.
        namespaces: where the installation may be; the ConfigMap of Volcano's users comes first in any case.

    """
    maps = [(CONFIG_MAP_NAMESPACE, name, "") for name in (*CONFIG_MAP_NAMES, *await _other_releases(client))]
    maps += [(namespace, INSTALLED_NAME, INSTALLED_KEY) for namespace in namespaces]
    hidden = ""
    for namespace, name, key in maps:
        place = f"ConfigMap {namespace}/{name}"
        try:
            return Followed(text_of(await client.get(CONFIG_MAPS, name, namespace), key), place), hidden
        except ConfigError:
            continue
        except ApiError as error:
            hidden = hidden or (place if error.code != 404 else "")
    return None, hidden


async def _other_releases(client: Client) -> list[str]:
    """Names of the ConfigMaps that Volcano's chart makes for releases of other names, where they may be listed."""
    try:
        found = await client.list(CONFIG_MAPS, namespace=CONFIG_MAP_NAMESPACE)
    except ApiError:
        return []
    names = {one.metadata.name for one in found.items} - set(CONFIG_MAP_NAMES)
    return sorted(name for name in names if holds_configuration(name))


async def _source(client: Client) -> str:
    """Where the scheduler says that its configuration stands; empty for the default one, or where it does not say."""
    try:
        lease = await client.get(LEASES, CYCLES_LEASE, "kube-system")
    except ApiError:
        return ""
    return (lease.metadata.annotations or {}).get(CONFIGURATION_SOURCE, "")


def _read(file: Path) -> str | None:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(_MOST_BYTES)
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) < _MOST_BYTES else None
