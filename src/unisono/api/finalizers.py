"""Finalizers of objects: names that keep an object until those who set them take them away."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.api.base import Object


def has_finalizer(obj: Object, name: str) -> bool:
    """Whether an object has the finalizer."""
    return name in (obj.metadata.finalizers or ())


def without(finalizers: Iterable[str] | None, name: str) -> list[str] | None:
    """The other finalizers, as a field of an object has them; None where none is left."""
    return [each for each in finalizers or () if each != name] or None
