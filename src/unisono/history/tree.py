"""Which job a pod belongs to: the tree of live objects above it (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unisono.api.kinds import POD_GROUPS
from unisono.history.records import Link
from unisono.jobkinds.registry import JOB_KINDS

JOB_RESOURCES = frozenset(kind.resource for kind in JOB_KINDS)
# A chain of controllers that is longer is a circle.
_LONGEST_CHAIN = 8


class Tree:
    """Links by UID, by parent, and PodGroups by name."""

    def __init__(self, links: Iterable[Link]) -> None:
        self._links: dict[str, Link] = {}
        self._below: dict[str, set[str]] = {}
        self._groups: dict[str, str] = {}
        for link in links:
            self.put(link)

    def get(self, uid: str) -> Link | None:
        """The link of that UID."""
        return self._links.get(uid)

    def group(self, key: str) -> Link | None:
        """The PodGroup ``namespace/name``."""
        return self._links.get(self._groups.get(key, ""))

    def there(self, resource: str) -> list[Link]:
        """Links of a resource whose objects are there."""
        return [link for link in self._links.values() if link.resource == resource and not link.gone]

    def put(self, link: Link) -> None:
        """Add a link, or take the place of the one with its UID."""
        old = self._links.get(link.uid)
        if old is not None and old.parent != link.parent:
            self._cut(old)
        self._links[link.uid] = link
        if link.parent:
            self._below.setdefault(link.parent, set()).add(link.uid)
        if link.resource == POD_GROUPS.resource and not link.gone:
            self._groups[f"{link.namespace}/{link.name}"] = link.uid

    def forget(self, before: int) -> list[str]:
        """Drop what went before a moment; answers the UIDs."""
        found = [uid for uid, link in self._links.items() if link.gone and link.gone < before]
        for uid in found:
            link = self._links.pop(uid)
            self._cut(link)
            key = f"{link.namespace}/{link.name}"
            if link.resource == POD_GROUPS.resource and self._groups.get(key) == uid:
                del self._groups[key]
        return found

    def under(self, uid: str) -> Iterator[Link]:
        """The link and all below it."""
        todo, seen = [uid], {uid}
        for each in todo:
            link = self._links.get(each)
            if link is not None:
                yield link
            fresh = self._below.get(each, set()) - seen
            seen |= fresh
            todo += sorted(fresh)

    def top(self, uid: str) -> str:
        """UID of the uppermost job at or above a link; empty where there is none."""
        found = ""
        for _ in range(_LONGEST_CHAIN):
            link = self._links.get(uid)
            if link is None:
                break
            if link.resource in JOB_RESOURCES:
                found = uid
            uid = link.parent
        return found

    def _cut(self, link: Link) -> None:
        children = self._below.get(link.parent)
        if children is not None:
            children.discard(link.uid)
            if not children:
                del self._below[link.parent]
