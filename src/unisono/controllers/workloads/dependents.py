"""Objects that a workload controls: found, adopted, made and deleted, never twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from unisono.api.base import LabelSelector, Object
from unisono.api.kind import Kind
from unisono.api.pod_states import ENDED_PHASES
from unisono.api.selecting import controller_of, selects
from unisono.controllers import owners
from unisono.controllers.objects import Expectations, delete_seen, for_each, to_json
from unisono.controllers.owners import index
from unisono.errors import AlreadyExists, ApiError, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context

O = TypeVar("O", bound=Object)  # noqa: E741
T = TypeVar("T", bound=Object)
Selector = Callable[[O], LabelSelector | None]

_OWNER_INDEX = "controller-uid"
_ORPHAN_INDEX = "orphans-of-namespace"


class Dependents(Generic[O, T]):
    """Dependents of kind ``kind`` of all owners of kind ``owner_kind``.

    What was made or deleted and does not show in the cache yet is remembered: ``settled`` says whether an owner's
    dependents are as the cache shows them.
    """

    def __init__(
        self, context: Context, owner_kind: Kind[O], kind: Kind[T], selector: Selector[O] | None = None
    ) -> None:
        """``selector`` tells which objects without a controller an owner adopts; without one it adopts none."""
        self._client, self._clock = context.client, context.clock
        self._owner_kind, self._kind, self._selector = owner_kind, kind, selector
        self._owners = context.informer(owner_kind)
        self._expected = Expectations()
        self.informer = context.informer(kind)
        self.informer.on_change(self._seen)
        context.watch(kind, self._keys)
        index(self.informer, _OWNER_INDEX, owners.controller_keys)
        if selector is not None:
            index(self.informer, _ORPHAN_INDEX, _orphan_namespace)

    def of(self, owner: O) -> list[T]:
        """The owner's dependents in the cache, those that are being deleted too."""
        return self.informer.by_index(_OWNER_INDEX, owners.family(owner))

    def settled(self, owner: O) -> bool:
        """Whether everything that was made and deleted for the owner shows in the cache."""
        return not self._expected.pending(owner.metadata.uid or "", self._clock.monotonic())

    def forget(self, owner: O) -> None:
        """The owner is gone."""
        self._expected.forget(owner.metadata.uid or "")

    async def claim(self, owner: O) -> list[T]:
        """The owner's dependents, after those that fit were adopted and those that do not were let go.

        Raises:
            Conflict: an object changed meanwhile.
        """
        owned = self.of(owner)
        selector = self._selector(owner) if self._selector is not None else None
        if selector is None or owner.metadata.deletion_timestamp:
            return owned
        kept = []
        for each in owned:
            if each.metadata.deletion_timestamp or selects(selector, each.metadata.labels):
                kept.append(each)
            else:
                await self._release(owner, each)
        orphans = [
            each
            for each in self.informer.by_index(_ORPHAN_INDEX, owner.metadata.namespace or "")
            if selects(selector, each.metadata.labels)
        ]
        if orphans and await self._is_alive(owner):
            kept += [adopted for each in orphans if (adopted := await self._adopt(owner, each)) is not None]
        return kept

    async def create(self, owner: O, objects: Sequence[T]) -> list[Exception]:
        """Make the objects, first one, then twice as many at a time, until one fails; answers the errors."""
        done, size = 0, 1
        while done < len(objects):
            batch = objects[done : done + size]
            errors = await for_each(lambda obj: self._create(owner, obj), batch)
            if errors:
                return errors
            done, size = done + size, size * 2
        return []

    async def delete(self, owner: O, objects: Sequence[T]) -> list[Exception]:
        """Delete the objects; those that are gone or being deleted are fine. Answers the errors."""
        going = [obj for obj in objects if not obj.metadata.deletion_timestamp]
        return await for_each(lambda obj: self._delete(owner, obj), going)

    async def _create(self, owner: O, obj: T) -> None:
        uid, mark = owner.metadata.uid or "", f"+{obj.metadata.name}"
        # Before the request: the watch may be faster than the answer.
        self._expected.expect(uid, mark, self._clock.monotonic())
        try:
            await self._client.create(self._kind, obj)
        except AlreadyExists:
            self._expected.settle(uid, mark)
            existing = await self._client.get(self._kind, obj.metadata.name, obj.metadata.namespace)
            if uid not in owners.controller_uids(existing):
                raise
        except ApiError:
            self._expected.settle(uid, mark)
            raise

    async def _delete(self, owner: O, obj: T) -> None:
        uid, mark = owner.metadata.uid or "", f"-{obj.metadata.uid}"
        self._expected.expect(uid, mark, self._clock.monotonic())
        try:
            await delete_seen(self._client, self._kind, obj)
        except ApiError:
            self._expected.settle(uid, mark)
            raise
        if self.informer.get(obj.key) is None:
            self._expected.settle(uid, mark)

    async def _is_alive(self, owner: O) -> bool:
        """Asked of the server: a cache that lags would adopt for an owner that is going."""
        try:
            live = await self._client.get(self._owner_kind, owner.metadata.name, owner.metadata.namespace)
        except NotFound:
            return False
        return live.metadata.uid == owner.metadata.uid and not live.metadata.deletion_timestamp

    async def _adopt(self, owner: O, obj: T) -> T | None:
        return await self._reown(
            obj, [*(obj.metadata.owner_references or ()), owners.owned_by(self._owner_kind, owner)]
        )

    async def _release(self, owner: O, obj: T) -> T | None:
        uid = owner.metadata.uid
        return await self._reown(obj, [each for each in obj.metadata.owner_references or () if each.uid != uid])

    async def _reown(self, obj: T, references: Sequence[Any]) -> T | None:
        meta = obj.metadata
        patch = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "ownerReferences": [to_json(each) for each in references] or None,
            }
        }
        try:
            return await self._client.patch(self._kind, meta.name, patch, namespace=meta.namespace)
        except NotFound:
            return None

    def _seen(self, event_type: EventType, new: T, _old: T | None) -> None:
        for uid in owners.controller_uids(new):
            self._expected.settle(uid, f"+{new.metadata.name}")
            if event_type == "DELETED" or new.metadata.deletion_timestamp:
                self._expected.settle(uid, f"-{new.metadata.uid}")

    def _keys(self, obj: T) -> list[str]:
        if controller_of(obj) is not None:
            return owners.keys_of(self._owner_kind, obj)
        if self._selector is None or obj.metadata.deletion_timestamp:
            return []
        labels, namespace = obj.metadata.labels, obj.metadata.namespace
        return [
            owner.key
            for owner in self._owners.items()
            if owner.metadata.namespace == namespace and selects(self._selector(owner), labels)
        ]


def _orphan_namespace(obj: Object) -> list[str]:
    if controller_of(obj) is not None or obj.metadata.deletion_timestamp:
        return []
    phase = getattr(getattr(obj, "status", None), "phase", None)
    return [] if phase in ENDED_PHASES else [obj.metadata.namespace or ""]


def first_text(errors: Sequence[Exception], made: Iterable[Object]) -> str:
    """The first error, with the beginning alone of names that were drawn: the next try says the same, and is counted.

    Args:
        errors: at least one.
        made: what was to be created.
    """
    text = str(errors[0])
    drawn = {one.metadata.name: one.metadata.generate_name for one in made if one.metadata.generate_name}
    name = next((name for name in drawn if f'"{name}"' in text), "")
    return text.replace(f'"{name}"', f'"{drawn[name]}"') if name else text


def raise_first(errors: Sequence[Exception]) -> None:
    """Raise the first error unless the namespace is ending: then nothing more will ever be made in it."""
    for error in errors:
        if "is being terminated" not in str(error):
            raise error
