"""Reads the API of a control plane: tests look often, and a kubectl for each look would keep the processors busy."""

from __future__ import annotations

import base64
import functools
import json
import ssl
from http.client import HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from support.plane import PATIENCE, RunningPlane

OK, ABSENT = 200, (400, 404)


class Reader:
    """Objects and logs of the namespace ``default``, by the administrator's token."""

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

    def log(self, pod: dict[str, Any]) -> str:
        """What all containers of the pod have said; of one that has been started again, since then."""
        name, spec = pod["metadata"]["name"], pod["spec"]
        containers = [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])]
        return "".join(
            self._read(f"/api/v1/namespaces/default/pods/{name}/log?container={each}") for each in containers
        )

    @functools.cache  # noqa: B019 - as few as there are control planes
    def _version(self, group: str) -> str:
        return str(json.loads(self._read(f"/apis/{group}"))["preferredVersion"]["version"])

    def _read(self, path: str) -> str:
        """The answer's text; empty for what is not there, or has not begun to speak."""
        try:
            self._connection.request("GET", path, headers=self._headers)
            answer = self._connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, HTTPException):
            # The next request connects anew.
            self._connection.close()
            raise
        if answer.status in ABSENT:
            return ""
        assert answer.status == OK, f"GET {path}: {answer.status} {text}"
        return text
