"""The scheduler's configuration that is in force, as far as a viewer may read it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.api.kinds import CONFIG_MAPS
from unisono.dashboard.live.rights import may
from unisono.dashboard.views.wire import ConfigurationView
from unisono.engine.config_file.reader import DEFAULT_TEXT
from unisono.errors import ApiError
from unisono.install.options import NAMESPACE
from unisono.scheduler.config_map import INSTALLED_NAME
from unisono.simulator.forecast.live import configuration_in_maps

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
    # On one machine the file takes the installation's place, and is for whom that would be for.
    found, where = await configuration_in_maps(client, () if places.file is not None else (places.namespace,))
    if found is not None:
        return ConfigurationView(text=found.text, name=found.name)
    hidden = bool(where)
    if places.file is not None and not hidden:
        try:
            if await may(client, "get", CONFIG_MAPS, places.namespace, INSTALLED_NAME):
                text = await asyncio.to_thread(places.file.read_text, encoding="utf-8")
                return ConfigurationView(text=text, name=str(places.file))
            hidden = True
        except (ApiError, OSError, UnicodeDecodeError):
            hidden = True
    return ConfigurationView(text=DEFAULT_TEXT, name=_HIDDEN if hidden else DEFAULT, known=not hidden)
