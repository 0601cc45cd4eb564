"""One request to write an object: which object, by whom, and with which options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.apiserver.admission import Request
from unisono.apiserver.admission.request import Operation
from unisono.apiserver.encoding import codec
from unisono.apiserver.operations.context import Context
from unisono.apiserver.types import WriteOptions, Written


@dataclass(frozen=True, slots=True)
class Write:
    """What create, update, patch and apply have in common.

    Attributes:
        context: the store and the rules.
        kind: as the URL names it; answers are shown as this kind.
        stored: the same under its stored version.
        namespace: None for cluster-scoped kinds.
        name: empty for a new object.
        options: name the writer.
        subresource: ``status``, ``scale`` or empty.
        warnings: for the writer; filled in while the request is worked on.

    """

    context: Context
    kind: Kind[Any]
    stored: Kind[Any]
    namespace: str | None
    name: str
    options: WriteOptions
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        context: Context,
        kind: Kind[Any],
        namespace: str | None,
        name: str,
        options: WriteOptions,
        subresource: str = "",
    ) -> Write:
        """A write to a kind as it is served now.

        Raises:
            NotFound: the server does not serve the kind.

        """
        return cls(context, kind, context.stored_kind(kind), namespace, name, options, subresource)

    def request(self, operation: Operation, obj: Object, old: Object | None, subresource: str = "") -> Request:
        """The request that admission sees; a new object has its name by now."""
        meta, user, groups = obj.metadata, self.options.user, self.options.groups
        if old is not None:
            meta = old.metadata
        return Request(operation, self.stored, meta.namespace, meta.name, obj, old, subresource, user, groups)

    def answer(self, data: bytes, *, created: bool = False) -> Written:
        """The answer of the write: the stored object as ``kind`` shows it."""
        return Written(codec.as_version(data, self.stored, self.kind), created, self.warnings)
