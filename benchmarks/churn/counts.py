"""What a process holds: entries of every container that can be reached from its parts, and objects by class."""

from __future__ import annotations

import gc
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import _lru_cache_wrapper
from types import ModuleType
from typing import Any

_PLAIN = (str, bytes, int, float, bool, type(None), type, ModuleType)
_OURS = ("unisono.", "benchmarks.")


def entries(roots: Mapping[str, Any]) -> Counter[str]:
    """Entries by path, as ``scheduler._feed._records[]``; containers in equal places count together.

    Only attributes of this project's classes, and what is in containers, are followed.
    """
    found: Counter[str] = Counter()
    seen: set[int] = {id(found)}
    waiting = deque((name, root) for name, root in roots.items())
    while waiting:
        path, value = waiting.popleft()
        if isinstance(value, _PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        for name, child in _parts(value, path, found):
            waiting.append((name, child))
    return found


def caches() -> Counter[str]:
    """Entries of the caches and containers that belong to modules of this project."""
    found: Counter[str] = Counter()
    for module in [module for name, module in sys.modules.items() if name.startswith("unisono.")]:
        for name, value in vars(module).items():
            if isinstance(value, _lru_cache_wrapper):
                found[f"{module.__name__}.{name}"] = value.cache_info().currsize
            elif isinstance(value, (dict, list, set, deque, OrderedDict)):
                found[f"{module.__name__}.{name}"] = len(value)
            elif isinstance(value, type) and value.__module__ == module.__name__:
                found.update(dict(_of_class(value)))
    return found


def objects() -> Counter[str]:
    """Live objects by class, after a full collection."""
    gc.collect()
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())


def _of_class(owner: type) -> Iterator[tuple[str, int]]:
    for name, value in vars(owner).items():
        inner = getattr(value, "__func__", value)
        if isinstance(inner, _lru_cache_wrapper):
            yield f"{owner.__module__}.{owner.__qualname__}.{name}", inner.cache_info().currsize


def _parts(value: Any, path: str, found: Counter[str]) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        found[path] += len(value)
        return [(f"{path}[]", child) for child in list(value.values())]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        if not isinstance(value, tuple):
            found[path] += len(value)
        return [(f"{path}[]", child) for child in list(value)]
    if type(value).__module__ == "numpy":
        found[path] += int(getattr(value, "size", 0))
        return ()
    if type(value).__module__.startswith(_OURS) and "unisono.api." not in type(value).__module__:
        return [(f"{path}.{name}", child) for name, child in _attributes(value)]
    return ()


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)
