"""Webhooks played by a test: what they were asked, and what they answer."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

from unisono.api.groups.admission_registration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from unisono.apiserver.backend import Backend
from unisono.apiserver.types import WriteOptions

Document = dict[str, Any]
Reply = Callable[[Document], Any]


class Hooks:
    """Answers in place of webhooks, by the end of their URL, and remembers what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Document]] = []
        self.replies: dict[str, Reply] = {}

    async def post(self, client: Any, review: Document, seconds: float, view: Any) -> bytes:
        name = client.url.rpartition("/")[2]
        self.asked.append((name, review["request"]))
        reply = self.replies.get(name, lambda _: {"allowed": True})
        response = reply(review["request"])
        if asyncio.iscoroutine(response):
            response = await response
        answer = {"uid": review["request"]["uid"], **response}
        return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}).encode()

    def names(self) -> list[str]:
        """Who was asked, in order."""
        return [name for name, _ in self.asked]


def webhook(name: str, *resources: str, **fields: Any) -> Document:
    """A webhook for everything that is done to these resources, of whatever group."""
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": list(resources)}
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"url": f"https://hooks.example.com/{name}"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


async def configure(backend: Backend, *each: Document, changing: bool = False, name: str = "hooks") -> None:
    """Set webhooks up."""
    kind = MUTATING_WEBHOOKS if changing else VALIDATING_WEBHOOKS
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "webhooks": list(each)}
    await backend.service.create(kind, None, body, WriteOptions())


def patched(*operations: Document) -> Reply:
    """A reply that changes what was shown."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def refused(_: Document) -> Document:
    """A reply that says no."""
    return {"allowed": False, "status": {"message": "not today", "code": 403}}
