"""What an API server serves, by its discovery: from a kind, or a name that users type, to a URL; requests in JSON."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.errors import UnisonoError, from_status

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
# Where two groups share a plural, users of Unisono mean the batch system's kind.
PREFERRED_GROUPS = ("batch.volcano.sh", "")


class UnknownKind(UnisonoError):
    """The server serves no such kind."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``plural`` or ``plural.group``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def title(self) -> str:
        """``singular`` or ``singular.group``, as results of commands name an object's kind."""
        return f"{self.singular}.{self.group}" if self.group else self.singular

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, an object or a subresource."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


class ResourceMap:
    """All served resources, found by any of their names."""

    def __init__(self, resources: list[Resource]) -> None:
        self.resources = resources
        self._names: dict[str, Resource] = {}
        ranked = sorted(resources, key=lambda item: item.group not in PREFERRED_GROUPS)
        for pick in (
            lambda item: (item.plural, item.singular, item.kind.lower()),
            lambda item: item.short_names,
            lambda item: (item.name, item.title, f"{item.plural}.{item.version}.{item.group}"),
        ):
            for item in ranked:
                for name in pick(item):
                    self._names.setdefault(name, item)

    def has(self, name: str) -> bool:
        """Whether a kind is called so."""
        return name.lower() in self._names

    def named(self, name: str) -> Resource:
        """The resource that a user means by ``name``.

        Raises:
            UnknownKind: nothing is called so; names the nearest.
        """
        resource = self._names.get(name.lower())
        if resource is None:
            near = difflib.get_close_matches(name.lower(), self._names, 1)
            hint = f" Did you mean '{near[0]}'?" if near else " See 'kubectl api-resources' for all kinds."
            raise UnknownKind(f"The server has no kind '{name}'.{hint}")
        return resource

    def of(self, api_version: str, kind: str, file: str = "", instead: str = "") -> Resource:
        """The resource of a manifest's ``apiVersion`` and ``kind``.

        Args:
            api_version: of the manifest.
            kind: of the manifest.
            file: where it stands, for the message.
            instead: what to do where it is not served; empty for what always helps.

        Raises:
            UnknownKind: the server does not serve it.
        """
        group, _, version = api_version.rpartition("/")
        for item in self.resources:
            if (item.group, item.version, item.kind) == (group, version, kind):
                return item
        where = f"{file}: " if file else ""
        other = next((item for item in self.resources if (item.group, item.kind) == (group, kind)), None)
        if other is not None:
            instead = f"write apiVersion: {group}{'/' if group else ''}{other.version}, in which it is served"
        instead = instead or "install the CustomResourceDefinition that serves it, or correct apiVersion and kind"
        raise UnknownKind(f'{where}no matches for kind "{kind}" in version "{api_version}": {instead}.')

    def typed(self, resource: Resource) -> str:
        """What a user types for the kind: ``job``, and ``job.batch`` where the short name is another kind's."""
        return resource.singular if self.named(resource.singular).name == resource.name else resource.title

    def also_called(self, resource: Resource) -> list[Resource]:
        """Other resources of the same name: Jobs and CronJobs are kinds of two groups."""
        return [
            each
            for each in self.resources
            if each.singular == resource.singular and each.plural == resource.plural and each.group != resource.group
        ]

    def in_category(self, category: str) -> list[Resource]:
        """Resources of a category such as ``all``."""
        return [item for item in self.resources if category in item.categories]


async def discover(client: HttpClient) -> ResourceMap:
    """Ask the server for all it serves: two requests where discovery is aggregated."""
    resources: list[Resource] = []
    for root in ("/api", "/apis"):
        document = await request_json(client, "GET", root, accept=AGGREGATED)
        if document.get("kind") == "APIGroupDiscoveryList":
            for group in document.get("items", []):
                resources += _aggregated(group)
        else:
            for prefix in _group_versions(root, document):
                listing = await request_json(client, "GET", prefix)
                resources += _legacy(listing)
    return ResourceMap(resources)


def _aggregated(group: dict[str, Any]) -> list[Resource]:
    name = group.get("metadata", {}).get("name", "")
    return [
        Resource(
            name,
            version["version"],
            item["responseKind"]["kind"],
            item["resource"],
            item.get("singularResource") or item["responseKind"]["kind"].lower(),
            item.get("scope") == "Namespaced",
            tuple(item.get("shortNames") or ()),
            tuple(item.get("categories") or ()),
        )
        for version in group.get("versions", [])
        for item in version.get("resources", [])
    ]


def _group_versions(root: str, document: dict[str, Any]) -> list[str]:
    if root == "/api":
        return [f"/api/{version}" for version in document.get("versions", [])]
    return [f"/apis/{version['groupVersion']}" for group in document.get("groups", []) for version in group["versions"]]


def _legacy(listing: dict[str, Any]) -> list[Resource]:
    group, _, version = listing.get("groupVersion", "").rpartition("/")
    return [
        Resource(
            group,
            version,
            item["kind"],
            item["name"],
            item.get("singularName") or item["kind"].lower(),
            bool(item.get("namespaced")),
            tuple(item.get("shortNames") or ()),
            tuple(item.get("categories") or ()),
        )
        for item in listing.get("resources", [])
        if "/" not in item["name"]
    ]


async def request_json(
    client: HttpClient,
    method: str,
    path: str,
    *,
    body: Any = None,
    params: dict[str, str] | None = None,
    content_type: str = "application/json",
    accept: str = "application/json",
    warned: Callable[[str], None] | None = None,
) -> Any:
    """One request, JSON in and out; ``warned`` gets each warning of the server.

    Raises:
        ApiError: the server answered with an error.
    """
    status, headers, answer = await client.request(
        method,
        path,
        body=None if body is None else json.dumps(body).encode(),
        params=params or {},
        content_type=content_type,
        accept=accept,
    )
    try:
        document = json.loads(answer) if answer else {}
    except ValueError:
        document = {"message": answer.decode(errors="replace").strip()}
    if status >= 400:
        raise from_status(document, status)
    if warned is not None:
        for text in warnings_of(headers):
            warned(text)
    return document


_WARNING = re.compile(r'\b\d{3} \S+ "((?:[^"\\]|\\.)*)"')


def warnings_of(headers: Any) -> list[str]:
    """Texts of the ``Warning`` headers of an answer, each once."""
    given = headers.getall("Warning", []) if hasattr(headers, "getall") else ()
    every = (text for header in given for text in _WARNING.findall(header))
    return list(dict.fromkeys(re.sub(r"\\(.)", r"\1", text) for text in every))
