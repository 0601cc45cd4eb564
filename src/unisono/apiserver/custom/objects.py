"""Objects of user-defined kinds: metadata as a struct, everything else as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.base import Object

if TYPE_CHECKING:
    from unisono.apiserver.custom.kinds import CustomKind

_ENCODE = msgspec.json.Encoder().encode
_CANONICAL = msgspec.json.Encoder(order="deterministic").encode


class CustomObject(Object, kw_only=True, eq=False):
    """One object, in the version of ``custom``.

    Attributes:
        custom: kind and version whose schema the content follows.
        content: every top-level field but apiVersion, kind and metadata.

    """

    custom: Any
    content: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def status(self) -> Any:
        """The field ``status``; None when absent. Setting None removes it."""
        return self.content.get("status")

    @status.setter
    def status(self, value: Any) -> None:
        if value is None:
            self.content.pop("status", None)
        else:
            self.content["status"] = value

    def values(self) -> dict[str, Any]:
        """The whole object as JSON values; they are shared with the object."""
        header = {"apiVersion": self.api_version, "kind": self.kind, "metadata": msgspec.to_builtins(self.metadata)}
        return {**header, **self.content}

    def encoded(self) -> bytes:
        """The object as JSON, in its own version."""
        header = {"apiVersion": self.api_version, "kind": self.kind, "metadata": self.metadata}
        return _ENCODE({**header, **self.content})

    def differs(self, other: CustomObject, *, without_status: bool) -> bool:
        """Whether anything but metadata (and the status) differs."""
        left, right = self.content, other.content
        if without_status:
            left = {name: value for name, value in left.items() if name != "status"}
            right = {name: value for name, value in right.items() if name != "status"}
        # Compared as JSON: to Python 1, 1.0 and true are equal.
        return left is not right and _CANONICAL(left) != _CANONICAL(right)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomObject):
            return NotImplemented
        header = (self.api_version, self.kind) == (other.api_version, other.kind)
        return header and self.metadata == other.metadata and not self.differs(other, without_status=False)

    __hash__ = None  # type: ignore[assignment]


def custom_of(obj: CustomObject) -> CustomKind:
    """The kind and version of an object."""
    found: CustomKind = obj.custom
    return found
