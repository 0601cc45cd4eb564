"""Volcano: its objects are ours; the scheduler's configuration is rewritten."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.api.keys import CONFIG_MAP_KEY
from unisono.cli.migrate.written import Json, Written, name_of
from unisono.engine.config_file.dialects import convert as rewrite


def convert(objects: Iterable[Json]) -> Written:
    """The same objects, and ConfigMaps with the configuration in today's form."""
    done = Written()
    for each in objects:
        data = each.get("data") or {}
        if each.get("kind") == "ConfigMap" and CONFIG_MAP_KEY in data:
            rewritten = rewrite(data[CONFIG_MAP_KEY], f"ConfigMap {name_of(each)}")
            done.changes += rewritten.changes
            done.lost += rewritten.lost
            done.others.append({**each, "data": {**data, CONFIG_MAP_KEY: rewritten.text}})
        elif each.get("kind") == "Queue":
            done.queues[name_of(each)] = {key: value for key, value in each.items() if key != "status"}
        else:
            done.others.append(each)
    return done
