"""Discovery documents: what is served, in the aggregated and in the older form."""

from __future__ import annotations

from typing import Any

from unisono.apiserver.catalog import Catalog, Served, Subresource
from unisono.apiserver.http.accept import clauses

Document = dict[str, Any]
_AGGREGATED_GROUP = "apidiscovery.k8s.io"
_AGGREGATED_VERSIONS = ("v2", "v2beta1")


def aggregated_version(accept: str) -> str | None:
    """``v2`` or ``v2beta1`` when the client reads aggregated discovery, None when it reads the older form."""
    for clause in clauses(accept):
        if clause.media_type != "application/json":
            continue
        params = clause.params
        if not params:
            return None
        version = params.get("v", "")
        wanted = params.get("as") == "APIGroupDiscoveryList" and params.get("g") == _AGGREGATED_GROUP
        if wanted and version in _AGGREGATED_VERSIONS:
            return version
    return None


def aggregated_content_type(version: str) -> str:
    """The exact content type by which clients recognise an aggregated answer."""
    return f"application/json;g={_AGGREGATED_GROUP};v={version};as=APIGroupDiscoveryList"


def aggregated(catalog: Catalog, version: str, *, core: bool) -> Document:
    """The ``APIGroupDiscoveryList`` of ``/api`` (core) or of ``/apis`` (all other groups)."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{_AGGREGATED_GROUP}/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {**({"name": group} if group else {}), "creationTimestamp": None},
                "versions": [
                    {
                        "version": entry,
                        "freshness": "Current",
                        "resources": [_discovered(served) for served in catalog.resources(group, entry)],
                    }
                    for entry in versions
                ],
            }
            for group, versions in catalog.groups()
            if (group == "") == core
        ],
    }


def _discovered(served: Served) -> Document:
    kind = served.kind
    found: Document = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular_name,
        "verbs": list(served.verbs),
    }
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    if served.subresources:
        found["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(sub.group, sub.version, sub.kind),
                "verbs": list(sub.verbs),
            }
            for sub in served.subresources
        ]
    return found


def _response_kind(group: str, version: str, kind: str) -> Document:
    return {"group": group, "version": version, "kind": kind}


def api_versions(server_address: str) -> Document:
    """The ``APIVersions`` of ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def group_list(catalog: Catalog) -> Document:
    """The ``APIGroupList`` of ``/apis``."""
    groups = [_group(group, versions) for group, versions in catalog.groups() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(catalog: Catalog, name: str) -> Document | None:
    """The ``APIGroup`` of ``/apis/<group>``; None when it is not served."""
    for found, versions in catalog.groups():
        if found == name and name:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}
    return None


def _group(name: str, versions: list[str]) -> Document:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def resource_list(catalog: Catalog, group_name: str, version: str) -> Document | None:
    """The ``APIResourceList`` of one group and version; None when it is not served."""
    served = catalog.resources(group_name, version)
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group_name}/{version}" if group_name else version,
        "resources": [entry for one in served for entry in _resources(one)],
    }


def _resources(served: Served) -> list[Document]:
    kind = served.kind
    main: Document = {
        "name": kind.plural,
        "singularName": kind.singular_name,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(served.verbs),
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    return [main, *(_subresource(served, sub) for sub in served.subresources)]


def _subresource(served: Served, sub: Subresource) -> Document:
    entry: Document = {
        "name": f"{served.kind.plural}/{sub.name}",
        "singularName": "",
        "namespaced": served.kind.namespaced,
        "kind": sub.kind,
        "verbs": list(sub.verbs),
    }
    if (sub.group, sub.version) != (served.kind.group, served.kind.version):
        entry["group"], entry["version"] = sub.group, sub.version
    return entry
