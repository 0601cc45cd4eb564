"""Asks the conversion webhooks of users' definitions, so that what reads objects never has to wait for them.

Reading is done in one go, without giving the event loop away. So a reader first makes the objects known to
the kind first; then ``CustomKind.view`` has them at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from unisono.api.kind import Kind
from unisono.apiserver.custom.converting import BadConversion, Webhook, question, read_answer, take
from unisono.apiserver.custom.kinds import CustomKind, CustomObject, custom_of
from unisono.apiserver.flow_control.turns import aside, weigh
from unisono.apiserver.storage.objects import StoredEntry
from unisono.apiserver.webhooks.calling import Caller, CallError, Objects
from unisono.errors import ApiError

_SECONDS = 30.0
# One question holds about that much of objects.
_BATCH_BYTES = 1024 * 1024
_JSON = msgspec.json.Decoder().decode
Document = dict[str, Any]


class Conversions:
    """Conversion by webhook.

    Args:
        objects: the store, and the Services and pods that lead to webhooks.
        caller: gives what asks them.

    """

    def __init__(self, objects: Objects, caller: Callable[[], Caller]) -> None:
        self._objects, self._caller = objects, caller

    async def know(self, kind: Kind[Any], stored: Iterable[bytes]) -> None:
        """Have ``kind`` know how to show these stored objects.

        Raises:
            ApiError: 500 when the webhook does not convert them; the words are Kubernetes'.

        """
        if not isinstance(kind, CustomKind) or kind.converted is None:
            return
        foreign = list(dict.fromkeys(data for data in stored if not kind.knows(data)))
        for batch in _batches(foreign):
            weigh(sum(map(len, batch)))
            originals = await aside(_all_of, kind.definition.pruned, batch)
            converted = await self._convert(kind, originals, kind.api_version)
            for data, value in zip(batch, converted, strict=True):
                kind.learn(data, value)

    async def know_present(self, kind: Kind[Any], namespace: str | None, name: str) -> None:
        """Have ``kind`` know the object that the next write starts from, if there is one."""
        if not isinstance(kind, CustomKind) or kind.converted is None:
            return
        key = self._objects.key(kind, namespace, name)
        # While the webhook is asked, others may write.
        while (entry := self._objects.store.latest(key)) is not None and not kind.knows(entry.data):
            await self.know(kind, [entry.data])

    async def shown(self, kind: Kind[Any], data: bytes) -> bytes:
        """An object that has just been stored, in the version of ``kind``."""
        if not isinstance(kind, CustomKind) or kind.converted is None:
            return data
        await self.know(kind, [data])
        return kind.view(data)

    async def for_storing(self, obj: Any) -> Any:
        """The object in the storage version; other objects, and those that are in it already, as they are."""
        if not isinstance(obj, CustomObject):
            return obj
        kind = custom_of(obj)
        storage = kind.definition.storage
        if kind.converted is None or storage.version == kind.version:
            return obj
        # Through bytes: the object goes on to be looked at, and must not share what is pruned.
        original = _JSON(obj.encoded())
        (converted,) = await self._convert(kind, [original], storage.api_version)
        return storage.stored_object(converted, obj.metadata)

    async def _convert(self, kind: CustomKind, originals: Sequence[Document], api_version: str) -> list[Document]:
        webhook, uid = kind.definition.webhook, self._objects.new_uid()
        assert webhook is not None
        what = f"conversion webhook for {originals[0]['apiVersion']}, Kind={kind.kind}"
        converted = await self._ask(webhook, uid, originals, api_version, what)
        return await aside(_taken, originals, converted, api_version, what)

    async def _ask(
        self, webhook: Webhook, uid: str, originals: Sequence[Document], api_version: str, what: str
    ) -> list[Any]:
        review = question(webhook, uid, originals, api_version)
        try:
            body = await self._caller().post(webhook.client, review, _SECONDS, self._objects)
            weigh(len(body))
            converted = await aside(read_answer, webhook, uid, body)
        except (CallError, BadConversion) as error:
            raise _failed(f"{what} failed: {error}") from None
        if len(converted) != len(originals):
            raise _failed(f"{what} returned {len(converted)} objects, expected {len(originals)}")
        return converted


def _all_of(function: Callable[[bytes], Document], batch: Iterable[bytes]) -> list[Document]:
    return [function(data) for data in batch]


def _taken(originals: Sequence[Document], converted: Sequence[Any], api_version: str, what: str) -> list[Document]:
    found = []
    for index, (original, answer) in enumerate(zip(originals, converted, strict=True)):
        try:
            found.append(take(original, answer, api_version))
        except BadConversion as error:
            raise _failed(f"{what} returned invalid converted object at index {index}: {error}") from None
    return found


def data_of(entries: Iterable[StoredEntry]) -> list[bytes]:
    """The stored objects of entries."""
    return [entry.data for entry in entries]


def _batches(stored: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for data in stored:
        if batch and size + len(data) > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(data)
        size += len(data)
    if batch:
        yield batch


def _failed(message: str) -> ApiError:
    return ApiError(message, code=500, reason="")
