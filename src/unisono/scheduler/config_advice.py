"""What to tell the author of a ConfigMap that holds the scheduler's configuration (pure)."""

from __future__ import annotations

from unisono.api.core import ConfigMap
from unisono.api.keys import CONFIG_MAP_NAMES, CONFIG_MAP_NAMESPACE
from unisono.engine.config_file.reader import load_config
from unisono.errors import ConfigError
from unisono.scheduler.config_map import holds_configuration, key_of, text_of

INSTALLED_NAME = "unisono-scheduler"
"""Name of the ConfigMap that an installation brings with the scheduler."""
INSTALLED_KEY = "unisono-scheduler.conf"


def concerns(name: str) -> bool:
    """Whether a ConfigMap of this name is meant to hold the scheduler's configuration."""
    return name == INSTALLED_NAME or holds_configuration(name)


def advice(config_map: ConfigMap) -> list[str]:
    """Sentences for its author: what is wrong, has no effect, or will not be read at all.

    Plug-ins that are named as ``module:Class`` are not imported: only the scheduler has to have them.
    """
    meta = config_map.metadata
    if not concerns(meta.name):
        return []
    installed = meta.name == INSTALLED_NAME
    key = INSTALLED_KEY if installed else key_of(config_map)
    if installed and key not in (config_map.data or {}):
        return []
    told = []
    if not installed and meta.namespace != CONFIG_MAP_NAMESPACE:
        told.append(f"the scheduler reads {meta.name} in namespace {CONFIG_MAP_NAMESPACE} only")
    elif not installed and meta.name not in CONFIG_MAP_NAMES:
        told.append(
            f"a scheduler that may read only what it must reads {' and '.join(CONFIG_MAP_NAMES)} alone: give "
            f"{meta.name} one of these names"
        )
    try:
        notes = load_config(text_of(config_map, key), key, imports=False).notes
    except ConfigError as error:
        return [*told, f"the scheduler will not use this configuration: {error}"]
    return [*told, *(f"{key}: {note}" for note in notes)]
