"""A fix: what to do in words, and the requests that do it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from unisono.api.kind import Kind
from unisono.api.kinds import NODES, PODS

Verb = Literal["patch", "create", "delete", "replace"]
_TYPES = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One request.

    Attributes:
        verb: ``replace`` deletes the object, with what it owns, and creates it again with the JSON patch in ``body``:
            for fields that cannot be changed.
        kind: of the object.
        name, namespace: of the object; empty namespace for kinds without one.
        body: the patch, or the manifest to create.
        patch_type: ``merge`` or ``json``.
        subresource: to be patched in place of the object.
    """

    verb: Verb
    kind: Kind[Any]
    name: str
    namespace: str = ""
    body: Any = None
    patch_type: Literal["merge", "json"] = "merge"
    subresource: str = ""

    @property
    def title(self) -> str:
        """``job.batch.volcano.sh/train``."""
        return f"{self.kind.singular_name}{'.' + self.kind.group if self.kind.group else ''}/{self.name}"

    @property
    def content_type(self) -> str:
        """Of the patch."""
        return _TYPES[self.patch_type]

    def kubectl(self) -> str:
        """The same as a command line."""
        where = ["-n", self.namespace] if self.namespace else []
        body = json.dumps(self.body, separators=(",", ":"))
        patch = ["kubectl", "patch", self.title, *where, "--type", self.patch_type, "-p", body]
        match self.verb:
            case "create":
                return f"kubectl create -f - <<< {shlex.quote(body)}"
            case "delete":
                return shlex.join(["kubectl", "delete", self.title, *where])
            case "replace":
                return f"{shlex.join([*patch, '--dry-run=client', '-o', 'json'])} | kubectl replace --force -f -"
            case _:
                more = ["--subresource", self.subresource] if self.subresource else []
                return shlex.join([*patch, *more])

    def json(self) -> dict[str, Any]:
        """For programs."""
        fields = {"verb": self.verb, "apiVersion": self.kind.api_version, "kind": self.kind.kind, "name": self.name}
        if self.namespace:
            fields["namespace"] = self.namespace
        if self.verb in ("patch", "replace"):
            fields["patchType"] = self.patch_type
        if self.subresource:
            fields["subresource"] = self.subresource
        return {**fields, **({"body": self.body} if self.body is not None else {}), "kubectl": self.kubectl()}


MEMBER_SEPARATOR: Final = ":"
"""Between a member and its node or namespace, in what a hub says; it is in no name of these kinds."""


def _is_local(operation: Operation) -> bool:
    return operation.kind in (NODES, PODS)


@dataclass(frozen=True, slots=True)
class Fix:
    """One way out.

    Attributes:
        text: for people.
        tried: the engine carried it out on a copy of the cluster, and the job started.
        change: as the verdict has it, with ``kind``.
        operations: what does it, in order; empty where the API cannot do it (more nodes), or where nothing is to be
            done but to wait.
        why_not: why there are no operations.
        lasting: what does the same to the object that makes the pods which ``operations`` change, where it makes
            others in their place.
    """

    text: str
    tried: bool
    change: dict[str, Any]
    operations: tuple[Operation, ...] = ()
    why_not: str = ""
    warnings: tuple[str, ...] = field(default=())
    lasting: tuple[Operation, ...] = ()

    def here(self) -> Fix:
        """The same on the server that said it: what a hub says of nodes and pods of its members is done there."""
        if not any(MEMBER_SEPARATOR in f"{each.namespace}{each.name}" for each in self.operations if _is_local(each)):
            return self
        why = "it is done in that member: 'unisono fleet contexts' makes a context of kubectl for each"
        return replace(self, operations=(), why_not=why)

    def json(self, number: int) -> dict[str, Any]:
        """For programs."""
        fields: dict[str, Any] = {"number": number, "text": self.text, "tried": self.tried, "change": self.change}
        if self.operations:
            fields["operations"] = [each.json() for each in self.operations]
        if self.why_not:
            fields["notApplicable"] = self.why_not
        if self.warnings:
            fields["warnings"] = list(self.warnings)
        return fields
