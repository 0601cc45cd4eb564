"""The configuration of network topology discovery, in Volcano's format (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unisono.api.keys import HOSTNAME
from unisono.api.times import duration_or_none
from unisono.api.topology_sources import Switch
from unisono.api.yaml import load_all
from unisono.controllers.hypernode.topology_file import FILE_SOURCE, NAME, TopologyError, read_switches, tiers_of
from unisono.errors import ConfigError

KEY = "volcano-controller.conf"
LABEL_SOURCE = "label"
# The type becomes a part of object names.
_LONGEST_TYPE = 20
# The source becomes the value of a label.
_LONGEST_SOURCE = 63
_INTERVAL, _SHORTEST = 3600.0, 10.0


@dataclass(frozen=True, slots=True)
class AskedSource:
    """A source outside of the cluster.

    Attributes:
        interval: seconds from one look to the next.
        secret: namespace and name of the Secret with credentials; None for none.
        config: for the source, as it was written.
        at: where the configuration stands.

    """

    interval: float
    secret: tuple[str, str] | None
    config: dict[str, Any]
    at: str


@dataclass(frozen=True, slots=True)
class DiscoveryConfig:
    """What is to be discovered.

    Attributes:
        types: topology types, each with node labels from the narrowest domain to the widest; None when discovery by
            labels is off.
        switches: of a topology file, by name; None when discovery by file is off.
        asked: sources outside of the cluster, by name.
        problems: what is wrong with the configuration and was left out.

    """

    types: dict[str, tuple[str, ...]] | None = None
    problems: list[str] = field(default_factory=list)
    switches: dict[str, Switch] | None = None
    asked: dict[str, AskedSource] = field(default_factory=dict)


def parse_config(text: str) -> DiscoveryConfig:
    """Read ``volcano-controller.conf``; what is wrong is left out and told."""
    try:
        documents = load_all(text, KEY)
    except ConfigError as error:
        return DiscoveryConfig(problems=[str(error)])
    document = documents[0].value if documents else None
    entries = document.get("networkTopologyDiscovery") if isinstance(document, dict) else None
    problems: list[str] = []
    types: dict[str, tuple[str, ...]] | None = None
    switches: dict[str, Switch] | None = None
    asked: dict[str, AskedSource] = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        at = f"networkTopologyDiscovery[{number}]"
        if not isinstance(entry, dict) or not entry.get("enabled"):
            continue
        config = entry.get("config")
        if entry.get("source") == FILE_SOURCE:
            switches = _switches(config, f"{at}.config.topology", problems, switches)
            continue
        if entry.get("source") != LABEL_SOURCE:
            _asked(entry, at, asked, problems)
            continue
        given = config.get("networkTopologyTypes") if isinstance(config, dict) else None
        if not isinstance(given, dict):
            problems.append(f"{at}.config.networkTopologyTypes: must map names to lists of nodeLabel")
            continue
        types = {**(types or {}), **_types(given, f"{at}.config.networkTopologyTypes", problems)}
    return DiscoveryConfig(types, problems, switches, asked)


def _asked(entry: dict[str, Any], at: str, asked: dict[str, AskedSource], problems: list[str]) -> None:
    """A source that is asked from time to time."""
    name, config = entry.get("source"), entry.get("config")
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > _LONGEST_SOURCE:
        problems.append(f"{at}.source: it must be the name of a source")
        return
    if name in asked:
        problems.append(f'{at}.source: "{name}" is configured twice; the first one counts')
        return
    if config is not None and not isinstance(config, dict):
        problems.append(f"{at}.config: must map names to values")
        return
    text = entry.get("interval")
    interval = _INTERVAL if text is None else duration_or_none(str(text))
    if interval is None or interval <= 0:
        problems.append(f'{at}.interval: "{text}" is not a duration such as 10m; {_INTERVAL / 3600:g}h is used')
        interval = _INTERVAL
    secret = _secret(entry.get("credentials"), f"{at}.credentials.secretRef", problems)
    asked[name] = AskedSource(max(interval, _SHORTEST), secret, config or {}, at)


def _secret(credentials: Any, at: str, problems: list[str]) -> tuple[str, str] | None:
    """Namespace and name of a Secret; an empty namespace is that of the configuration."""
    if credentials is None:
        return None
    found = credentials.get("secretRef") if isinstance(credentials, dict) else None
    name = found.get("name") if isinstance(found, dict) else None
    namespace = found.get("namespace") if isinstance(found, dict) else None
    if not isinstance(name, str) or not name or not isinstance(namespace or "", str):
        problems.append(f"{at}: it must have the name, and may have the namespace, of a Secret")
        return None
    return str(namespace or ""), name


def _switches(
    config: Any, path: str, problems: list[str], before: dict[str, Switch] | None
) -> dict[str, Switch] | None:
    """The switches of a file; those of the entry before where this one cannot be read."""
    text = config.get("topology") if isinstance(config, dict) else None
    if not isinstance(text, str):
        problems.append(f"{path}: must be the text of a topology.conf")
        return before
    try:
        found = read_switches(text)
        tiers_of(found)
    except TopologyError as error:
        problems.append(f"{path}: {error}")
        return before
    return {**(before or {}), **found}


def _types(given: dict[Any, Any], path: str, problems: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, levels in given.items():
        at = f"{path}.{name}"
        labels = [level.get("nodeLabel") for level in levels if isinstance(level, dict)] if levels else []
        if not isinstance(name, str) or len(name) > _LONGEST_TYPE:
            problems.append(f"{at}: the name must be a text of at most {_LONGEST_TYPE} characters")
        elif not labels or not all(isinstance(label, str) and label for label in labels):
            problems.append(f"{at}: every level needs a nodeLabel")
        else:
            # Widest first in the file, and the node itself last; only domains of several nodes become HyperNodes.
            domains = labels[:-1] if labels[-1] == HOSTNAME else labels
            found[name] = tuple(str(label) for label in reversed(domains))
    return found
