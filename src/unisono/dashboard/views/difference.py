"""The difference of two views as a JSON merge patch (RFC 7386), which the page applies (pure)."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def difference(old: Json, new: Json) -> Json:
    """What turns ``old`` into ``new``; empty where they are equal.

    Lists are replaced as a whole, and None stands for a key that is gone: views hold no None of their own.
    """
    patch: Json = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if change := difference(before, value):
                patch[name] = change
        elif name not in old or before != value:
            patch[name] = value
    return patch


def applied(old: Json, patch: Json) -> Json:
    """``old`` with a patch, as the page does it."""
    found = dict(old)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict):
            before = found.get(name)
            found[name] = applied(before if isinstance(before, dict) else {}, value)
        else:
            found[name] = value
    return found
