"""The few fields of any object that the garbage collector and the namespace controller look at."""

from __future__ import annotations

import msgspec

from unisono.api.base import OwnerReference


class Meta(msgspec.Struct, rename="camel"):
    """The part of metadata that decides about life and death."""

    uid: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class Partial(msgspec.Struct, rename="camel"):
    """Any object, only as far as ``Meta`` goes."""

    metadata: Meta


read_partial = msgspec.json.Decoder(Partial).decode


def read_meta(data: bytes) -> Meta:
    """``Meta`` of stored bytes."""
    return read_partial(data).metadata
