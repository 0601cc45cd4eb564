"""Talks to the API of a control plane: a kubectl for each look and each change would keep the processors busy."""

from __future__ import annotations

import base64
import functools
import json
import ssl
from http.client import HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from support.plane import PATIENCE, RunningPlane

# 204: the log of a pod that has no node yet.
OK, ABSENT = (200, 201, 202, 204), (400, 404)


class Reader:
    """Objects and logs of the namespace ``default``, by the administrator's token: read, created and deleted."""

    def __init__(self, plane: RunningPlane) -> None:
        config = json.loads(plane.kubectl("config", "view", "--raw", "-o", "json"))
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        address = urlsplit(cluster["server"]).netloc
        tls = ssl.create_default_context(cadata=authority)
        self._connection = HTTPSConnection(address, timeout=PATIENCE, context=tls)

    def pods(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self._read("/api/v1/namespaces/default/pods"))["items"]
        return items

    def get(self, resource: str, name: str) -> dict[str, Any]:
        """An object, empty when there is none.

        Args:
            resource: plural and group, as in ``pytorchjobs.kubeflow.org``.
            name: of the object.
        """
        plural, _, group = resource.partition(".")
        root = f"/apis/{group}/{self._version(group)}" if group else "/api/v1"
        value: dict[str, Any] = json.loads(self._read(f"{root}/namespaces/default/{plural}/{name}") or "{}")
        return value

    def log(self, pod: dict[str, Any], before: bool = False) -> str:
        """What all containers of the pod have said since their last start; with ``before``, until then."""
        name, spec = pod["metadata"]["name"], pod["spec"]
        containers = [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])]
        previous = "&previous=true" if before else ""
        return "".join(
            self._read(f"/api/v1/namespaces/default/pods/{name}/log?container={each}{previous}") for each in containers
        )

    def create(self, value: dict[str, Any]) -> str:
        """Create an object as it is; its path."""
        folder = self._folder(value["apiVersion"], value["kind"])
        # One that has been idle for long may be about to be closed, and a change is not sent twice.
        self._connection.close()
        self._read(folder, "POST", value)
        return f"{folder}/{value['metadata']['name']}"

    def delete(self, path: str, *, at_once: bool = False) -> None:
        """Delete an object, if it is there, with what it owns.

        Args:
            path: as ``create`` said it.
            at_once: a pod without its time to end.
        """
        self._connection.close()
        options = {"propagationPolicy": "Background", **({"gracePeriodSeconds": 0} if at_once else {})}
        self._read(path, "DELETE", options)

    @functools.cache  # noqa: B019 - as few as there are control planes
    def _folder(self, version: str, kind: str) -> str:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resources = json.loads(self._read(root))["resources"]
        (plural,) = [each["name"] for each in resources if each["kind"] == kind and "/" not in each["name"]]
        return f"{root}/namespaces/default/{plural}"

    @functools.cache  # noqa: B019 - as few as there are control planes
    def _version(self, group: str) -> str:
        return str(json.loads(self._read(f"/apis/{group}"))["preferredVersion"]["version"])

    def _read(self, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> str:
        """The answer's text; empty for what is not there, or has not begun to speak."""
        try:
            text = None if body is None else json.dumps(body)
            self._connection.request(method, path, text, {**self._headers, "Content-Type": "application/json"})
            answer = self._connection.getresponse()
            told = answer.read().decode(errors="replace")
        except (OSError, HTTPException):
            # The next request connects again.
            self._connection.close()
            raise
        if answer.status in ABSENT and method != "POST":
            return ""
        assert answer.status in OK, f"{method} {path}: {answer.status} {told}"
        return told
