"""What the rest of the house knows of a kind: its names on the wire and the struct that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from unisono.api.base import Object

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a kind's ``scale`` subresource reads and writes, as JSON paths such as ``.spec.replicas``."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One served kind.

    Attributes:
        group: API group, ``""`` for core.
        version: the served and stored version.
        kind: CamelCase name.
        plural: resource name in URLs.
        struct: msgspec struct that decodes it.
        namespaced: False for cluster-scoped kinds.
        short_names: what kubectl accepts as abbreviation.
        categories: kubectl categories such as ``all``.
        status_subresource: writes to the main resource ignore ``status``, and ``/status`` writes only that.
        alias_versions: further versions that are accepted and answered with the same fields.
        scale: the paths of the ``scale`` subresource; None without one.
    """

    group: str
    version: str
    kind: str
    plural: str
    struct: type[T]
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status_subresource: bool = False
    alias_versions: tuple[str, ...] = ()
    scale: Scale | None = None

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular_name(self) -> str:
        """Lower-case singular resource name."""
        return self.singular or self.kind.lower()

    @property
    def resource(self) -> str:
        """``plural`` or ``plural.group``, as error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def matches(self, api_version: str, kind: str) -> bool:
        """Whether a manifest's apiVersion and kind are those of this kind, in whatever version."""
        return kind == self.kind and api_version.rpartition("/")[0] == self.group

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, of one object, or of its subresource."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def served(
    group: str,
    version: str,
    struct: type[T],
    *,
    kind: str = "",
    plural: str = "",
    namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    alias_versions: tuple[str, ...] = (),
    scale: Scale | None = None,
    status_subresource: bool = False,
) -> Kind[T]:
    """A kind of one line, called as its struct is unless ``kind`` says otherwise; plurals are English."""
    kind = kind or struct.__name__
    stem = kind.lower()
    regular = f"{stem[:-1]}ies" if stem.endswith("y") else f"{stem}es" if stem.endswith("ss") else f"{stem}s"
    names = (short_names, categories, status_subresource, alias_versions)
    return Kind(group, version, kind, plural or regular, struct, namespaced, "", *names, scale)
