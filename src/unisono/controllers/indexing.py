"""Indexes on informers that several controllers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from unisono.api.base import Object
from unisono.kube.informer import Informer

T = TypeVar("T", bound=Object)


def index(informer: Informer[T], name: str, function: Callable[[T], Iterable[str]]) -> None:
    """Add the index unless another controller has done so already."""
    if not informer.has_index(name):
        informer.add_index(name, function)
