"""Variables in the containers of whatever makes pods (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DEEPEST: Final = 40


def with_environment(value: Any, variables: Mapping[str, str], depth: int = 0) -> Any:
    """JSON with these variables in every container of every pod template; those that a container sets itself stay."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [with_environment(each, variables, depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: with_environment(each, variables, depth + 1) for key, each in value.items()}
    for key in ("containers", "initContainers"):
        if isinstance(found.get(key), list):
            found[key] = [_container(each, variables) for each in found[key]]
    return found


def _container(container: Any, variables: Mapping[str, str]) -> Any:
    if not isinstance(container, dict):
        return container
    given = container.get("env") or []
    names = {each.get("name") for each in given if isinstance(each, dict)}
    # In front, so that the container's own may refer to them.
    added = [{"name": name, "value": value} for name, value in variables.items() if name not in names]
    return {**container, "env": [*added, *given]}
