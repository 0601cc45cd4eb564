"""The file of ``--nodes``: simulated nodes as a YAML list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unisono.errors import ConfigError


def read_nodes(path: Path) -> Sequence[dict[str, Any]]:
    """The entries ``{name, count, capacity, labels, taints, devices}`` of the file.

    Raises:
        ConfigError: the file is missing, is no YAML or no list of mappings, or says something wrong of a node.

    """
    from unisono.agent.simulated.specs import parse_specs
    from unisono.api.yaml import load_all

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError("the nodes file is no text in UTF-8: is it the right file?", file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"the nodes file cannot be read: {error.strerror or error}.", file=str(path)) from None
    entries: list[dict[str, Any]] = []
    for document in load_all(text, file=str(path)):
        if not isinstance(document.value, list) or not all(isinstance(item, dict) for item in document.value):
            raise ConfigError(
                "expected a list of nodes such as '- {name: gpu, count: 4, capacity: {cpu: 8, memory: 32Gi}}'.",
                file=str(path),
                line=document.line,
            )
        entries += document.value
    if not entries:
        raise ConfigError("the nodes file is empty: list at least one node.", file=str(path))
    try:
        parse_specs(entries)
    except ConfigError as error:
        raise ConfigError(str(error), file=str(path)) from None
    return entries
