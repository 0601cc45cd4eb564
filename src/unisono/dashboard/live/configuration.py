"""The scheduler's configuration that is in force, as far as a viewer may read it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.api.keys import CONFIG_MAP_KEY, CONFIG_MAP_NAME, CONFIG_MAP_NAMESPACE
from unisono.api.kinds import CONFIG_MAPS
from unisono.dashboard.live.rights import may
from unisono.dashboard.views.wire import ConfigurationView
from unisono.engine.config_file.reader import DEFAULT_TEXT
from unisono.errors import ApiError, ConfigError
from unisono.install.options import NAMESPACE
from unisono.scheduler.config_advice import INSTALLED_KEY, INSTALLED_NAME
from unisono.scheduler.config_map import text_of

if TYPE_CHECKING:
    from unisono.kube.client import Client

DEFAULT = "the default configuration"
_HIDDEN = f"{DEFAULT}: you may not read the one in force"


@dataclass(frozen=True, slots=True)
class ConfigurationPlaces:
    """Where the scheduler's configuration is looked for.

    Attributes:
        namespace: of the installation.
        file: of the scheduler on this machine; None where it has none, or runs elsewhere.

    """

    namespace: str = NAMESPACE
    file: Path | None = None


async def configuration_of(client: Client, places: ConfigurationPlaces) -> ConfigurationView:
    """What the scheduler follows, in its own order: the ConfigMap of Volcano's users, the installation's, or its file.

    Args:
        client: with the viewer's credentials.
        places: where it is looked for.

    """
    hidden = False
    maps = [(CONFIG_MAP_NAMESPACE, CONFIG_MAP_NAME, CONFIG_MAP_KEY), (places.namespace, INSTALLED_NAME, INSTALLED_KEY)]
    # On one machine the file takes the installation's place, and is for whom that would be for.
    for namespace, name, key in maps[:1] if places.file is not None else maps:
        try:
            found = await client.get(CONFIG_MAPS, name, namespace)
            return ConfigurationView(text=text_of(found, key), name=f"ConfigMap {namespace}/{name}")
        except ConfigError:
            continue
        except ApiError as error:
            hidden = hidden or error.code != 404
    if places.file is not None and not hidden:
        try:
            if await may(client, "get", CONFIG_MAPS, places.namespace, INSTALLED_NAME):
                text = await asyncio.to_thread(places.file.read_text, encoding="utf-8")
                return ConfigurationView(text=text, name=str(places.file))
            hidden = True
        except (ApiError, OSError, UnicodeDecodeError):
            hidden = True
    return ConfigurationView(text=DEFAULT_TEXT, name=_HIDDEN if hidden else DEFAULT, known=not hidden)
