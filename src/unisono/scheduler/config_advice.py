"""What to tell the author of a ConfigMap that holds the scheduler's configuration (pure)."""

from __future__ import annotations

from unisono.api.core import ConfigMap
from unisono.api.keys import CONFIG_MAP_KEY, CONFIG_MAP_NAME, CONFIG_MAP_NAMESPACE
from unisono.engine.config_file.reader import load_config
from unisono.errors import ConfigError
from unisono.scheduler.config_map import text_of

INSTALLED_NAME = "unisono-scheduler"
"""Name of the ConfigMap that an installation brings with the scheduler."""
INSTALLED_KEY = "unisono-scheduler.conf"
_KEYS = {CONFIG_MAP_NAME: CONFIG_MAP_KEY, INSTALLED_NAME: INSTALLED_KEY}


def concerns(name: str) -> bool:
    """Whether a ConfigMap of this name is meant to hold the scheduler's configuration."""
    return name in _KEYS


def advice(config_map: ConfigMap) -> list[str]:
    """Sentences for its author: what is wrong, has no effect, or will not be read at all.

    Plug-ins that are named as ``module:Class`` are not imported: only the scheduler has to have them.
    """
    meta = config_map.metadata
    key = _KEYS.get(meta.name)
    if key is None or (meta.name == INSTALLED_NAME and key not in (config_map.data or {})):
        return []
    told = []
    if meta.name == CONFIG_MAP_NAME and meta.namespace != CONFIG_MAP_NAMESPACE:
        told.append(f"the scheduler reads {meta.name} in namespace {CONFIG_MAP_NAMESPACE} only")
    try:
        notes = load_config(text_of(config_map, key), key, imports=False).notes
    except ConfigError as error:
        return [*told, f"the scheduler will not use this configuration: {error}"]
    return [*told, *(f"{key}: {note}" for note in notes)]
