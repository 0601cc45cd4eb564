"""A whole control plane in this process on virtual time: API, controllers, scheduler and simulated nodes."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.answers.case import Case
from unisono import engine
from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.cli.applying import create
from unisono.cli.explaining import explain
from unisono.cli.manifests import Manifest
from unisono.cli.targets import object_of, one
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.errors import AlreadyExists, NotFound
from unisono.kube.discovery import Resource, ResourceMap, discover, request_json
from unisono.scheduler.explanations import Explanations
from unisono.scheduler.scheduler import Decide
from unisono.sdk.reasons.explaining import Explanation
from unisono.sdk.state.dependents import dependents
from unisono.standalone.shadow import Shadow, opened

NOW = 1_700_000_000.0
_NAMESPACE = "default"

unadvised: Decide = partial(engine.run, advice=False)
"""The engine, which tries no way out for jobs that wait: on virtual time that takes nine tenths of a processor."""


class Plane:
    """Made by `plane`; everything goes through the API as a user's requests do."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow, self.client = shadow, shadow.client
        self._pools = itertools.count()
        self.kill, self.start, self.settle = shadow.kill, shadow.start, shadow.settle
        self._config: SchedulerConfig | None = None
        self.resources: ResourceMap

    async def begin(self, case: Case) -> None:
        """Start the components and make the case's nodes and objects."""
        self.resources = await discover(self.client)
        self.start("controllers")
        self._config = load_config(case.scheduler, case.name) if case.scheduler else None
        self.start("scheduler", self._config)
        if case.nodes:
            await self.add_nodes(case.nodes)
        asked, name, _ = self.target(case.question)
        for body in case.objects:
            if len(case.objects) > 1 and (body["kind"], body["metadata"]["name"]) == (asked.kind, name):
                await self.settle()
            await self.create(body)
        await self.settle()

    async def add_nodes(self, specs: Iterable[dict[str, Any]]) -> None:
        """Let more simulated nodes join."""
        nodes = SimulatedNodes(
            self._shadow.backend.client(), parse_specs(list(specs)), self._shadow.clock, volumes=True
        )
        self._shadow.run(f"nodes {next(self._pools)}", nodes.run())
        await nodes.ready.wait()

    # ---- objects

    def target(self, title: str) -> tuple[Resource, str, str | None]:
        """Resource, name and namespace of ``kind/name`` or ``kind/namespace/name``."""
        kind, _, rest = title.partition("/")
        namespace, _, name = rest.rpartition("/")
        target = one([f"{kind}/{name}"], self.resources)
        return target.resource, name, (namespace or _NAMESPACE) if target.resource.namespaced else None

    async def get(self, title: str) -> dict[str, Any]:
        """One object; NotFound where it does not exist."""
        return (await self._found(title))[1]

    async def _found(self, title: str) -> tuple[Resource, dict[str, Any]]:
        """An object and its kind; where two kinds share the word, as `explain` looks for it."""
        resource, name, namespace = self.target(title)
        try:
            return resource, await request_json(self.client, "GET", resource.path(namespace, name))
        except NotFound:
            for other in self.resources.also_called(resource) if title.partition("/")[0] == resource.singular else ():
                return other, await request_json(self.client, "GET", other.path(namespace, name))
            raise

    async def create(self, body: dict[str, Any]) -> None:
        """Create an object with strict validation; what a cluster has by itself is patched instead."""
        manifest = Manifest(copy.deepcopy(body), "case", 1, Path())
        if "kind" in body and body["kind"] == "CustomResourceDefinition":
            await create(self.client, self.resources, manifest, _NAMESPACE)
            await self.settle()
            self.resources = await discover(self.client)
            return
        try:
            await create(self.client, self.resources, manifest, _NAMESPACE)
        except AlreadyExists:
            resource = self.resources.of(body["apiVersion"], body["kind"])
            path = resource.path(body["metadata"].get("namespace", _NAMESPACE), body["metadata"]["name"])
            await self._patch(path, {"spec": body.get("spec", {})}, "merge")

    async def patch(self, title: str, patch: Any, *, how: str = "merge", subresource: str = "") -> None:
        """Patch an object as kubectl does."""
        resource, name, namespace = self.target(title)
        await self._patch(resource.path(namespace, name, subresource or None), patch, how)

    async def _patch(self, path: str, patch: Any, how: str) -> None:
        kind = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}[how]
        await request_json(
            self.client, "PATCH", path, body=patch, content_type=kind, params={"fieldValidation": "Strict"}
        )

    async def delete(self, title: str, *, gone: bool = True) -> None:
        """Delete an object; where ``gone``, with what it owns, and wait until that has gone."""
        resource, name, namespace = self.target(title)
        path = resource.path(namespace, name)
        options = {"propagationPolicy": "Foreground"} if gone else {}
        await request_json(self.client, "DELETE", path, body={"kind": "DeleteOptions", "apiVersion": "v1", **options})
        for _ in range(60 if gone else 0):
            try:
                await request_json(self.client, "GET", path)
            except NotFound:
                return
            await asyncio.sleep(1)

    async def recreate(self, title: str, body: dict[str, Any]) -> None:
        """Delete an object and create another one in its place, as users do with what cannot be changed."""
        await self.delete(title)
        await self.create(body)

    # ---- time and answers

    async def explain(self, question: str, *, search: bool = True) -> Explanation:
        """What ``unisono explain QUESTION`` says; without ``search`` no copy of the plane is made."""
        return await explain(self.client, [question], _NAMESPACE, search=search, config=self._config)

    async def pods(self, question: str) -> list[dict[str, Any]]:
        """The pods of the object in question that have not failed and are not being deleted."""
        _, name, namespace = self.target(question)
        resource, item = await self._found(question)
        if resource.kind == "Pod":
            found = [item]
        else:
            listing = await request_json(self.client, "GET", f"/api/v1/namespaces/{namespace or _NAMESPACE}/pods")
            found = listing["items"]
            if resource.kind == "PodGroup":
                key = "scheduling.k8s.io/group-name"
                found = [
                    pod
                    for pod in found
                    if (pod["metadata"].get("annotations") or {}).get(key) == name
                    or (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == name
                ]
            else:
                _, owner = object_of(resource, item)
                uids = {pod.metadata.uid for pod in (await dependents(self.client, resource.name, owner)).pods}
                found = [pod for pod in found if pod["metadata"]["uid"] in uids]
        return [
            pod
            for pod in found
            if pod.get("status", {}).get("phase") != "Failed" and not pod["metadata"].get("deletionTimestamp")
        ]


@asynccontextmanager
async def plane(
    case: Case, folder: Path, decide: Decide | None = None, explanations: Explanations | None = None
) -> AsyncIterator[Plane]:
    """A control plane with the case's objects; ``folder`` may be used by one plane after another.

    ``decide`` stands in for the engine, ``explanations`` tells when it explains.
    """
    async with opened(folder, now=NOW, decide=decide, explanations=explanations) as shadow:
        made = Plane(shadow)
        await made.begin(case)
        yield made
