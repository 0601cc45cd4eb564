"""What of an exchange is compared: identities, moments and addresses are replaced by what they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support.transcript.proxy import Raw

Exchange = dict[str, Any]

DISCOVERY = re.compile(r"^/(api|apis|openapi|version)(/|$)")
OBJECTS = re.compile(r"^/(api/v1|apis/[^/]+/[^/]+)/.")
REPLACED = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"), "<token>"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<id>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\bmade-[a-z0-9]{5}\b"), "made-<id>"),
    (re.compile(r"\b10(\.\d+){3}\b"), "<ip>"),
    (re.compile(r"(?<=\d:)3\d{4}(?=/(TCP|UDP|SCTP)\b)"), "<port>"),
    (re.compile(r"STDIN|/tmp/[\w./-]+"), "STDIN"),
)
VALUES = {
    "uid": "<uid>",
    "resourceVersion": "<version>",
    "continue": "<continue>",
    "clusterIP": "<ip>",
    "nodePort": "<port>",
}
QUERY = {"resourceVersion": "<version>", "continue": "<continue>"}
DROPPED_QUERY = {"timeoutSeconds", "timeout"}
EMPTY: tuple[Any, ...] = (None, "", {}, [])
AGES = {"Age", "Last Seen", "First Seen", "Duration", "Created At"}


def exchange(raw: Raw, user: str) -> Exchange | None:
    """The exchange in a form that two servers can share; None for discovery, which has a comparison of its own."""
    target = urlsplit(raw.target)
    if DISCOVERY.match(target.path) and not OBJECTS.match(target.path):
        return None
    kind = raw.content_type.partition(";")[0].removeprefix("application/") if raw.method == "PATCH" else ""
    found: Exchange = {"request": " ".join(filter(None, (raw.method, _target(target), kind))), "status": raw.status}
    if raw.warnings:
        found["warnings"] = [text(one, user) for one in raw.warnings]
    found["body"] = _body(raw, user)
    return found


def text(value: str, user: str) -> str:
    """Text without what differs from one run to the next."""
    for pattern, word in REPLACED:
        value = pattern.sub(word, value)
    return value.replace(f'User "{user}"', 'User "<user>"')


def value(found: Any, user: str, key: str = "") -> Any:
    """A JSON value without what differs from one run to the next."""
    if isinstance(found, dict):
        if found.get("kind") == "Table" and "rows" in found:
            return _table(found, user)
        # Clients take an empty field and an absent one for the same.
        cleaned = {
            name: sorted(_owned(inner)) if name == "fieldsV1" and isinstance(inner, dict) else value(inner, user, name)
            for name, inner in found.items()
            if inner not in EMPTY
        }
        cleaned = {name: inner for name, inner in cleaned.items() if inner not in EMPTY}
        if len(cleaned.get("details", {}).get("causes", ())) > 1 and "message" in cleaned:
            # The causes say it again, and Kubernetes tells them in the order of a Go map.
            cleaned["message"] = cleaned["message"].partition(": [")[0]
        return _generated(cleaned)
    if isinstance(found, list):
        if key == "causes":
            # Kubernetes tells some causes twice.
            found = [one for index, one in enumerate(found) if one not in found[:index]]
            found.sort(key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
        return [value(inner, user, key) for inner in found]
    if key == "nodePort":
        return "<port>"
    if isinstance(found, str):
        if found and key in VALUES and not (key == "clusterIP" and found == "None"):
            return VALUES[key]
        if key == "username" and found == user:
            return "<user>"
        return text(found, user)
    return found


def _owned(fields: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, inner in fields.items():
        where = f"{path}/{text(name, '')}"
        yield where
        yield from _owned(inner, where)


def _generated(found: dict[str, Any]) -> dict[str, Any]:
    base, name = found.get("generateName"), found.get("name")
    if isinstance(base, str) and isinstance(name, str) and name.startswith(base):
        found["name"] = base + "<id>"
    return found


def _target(target: Any) -> str:
    asked = [(key, word) for key, word in parse_qsl(target.query, keep_blank_values=True) if key not in DROPPED_QUERY]
    words = [f"{key}={word if key not in QUERY or word == '0' else QUERY[key]}" for key, word in sorted(asked)]
    # The order of the terms of a field selector is that of a Go map.
    words = [
        f"fieldSelector={','.join(sorted(word[14:].split(',')))}" if word.startswith("fieldSelector=") else word
        for word in words
    ]
    return text(target.path + ("?" + "&".join(words) if words else ""), "")


def _body(raw: Raw, user: str) -> Any:
    content = raw.body.decode()
    if not content:
        return None
    if "json" not in raw.answer_type:
        return text(content, user)
    documents = [value(json.loads(line), user) for line in _documents(content)]
    return documents if "watch=" in raw.target and raw.status == 200 else documents[0]


def _documents(content: str) -> list[str]:
    try:
        json.loads(content)
    except ValueError:
        return [line for line in content.splitlines() if line.strip()]
    return [content]


def _table(found: dict[str, Any], user: str) -> dict[str, Any]:
    columns = found.get("columnDefinitions") or []
    names = [column["name"] for column in columns]
    rows = []
    for row in found["rows"] or []:
        cells = [
            "<age>"
            if names[index : index + 1] and names[index] in AGES and cell
            else text(cell, user)
            if isinstance(cell, str)
            else cell
            for index, cell in enumerate(row["cells"])
        ]
        rows.append({**row, "cells": cells, "object": value(row.get("object"), user)})
    # What a column says of itself is prose; clients go by name, type, format and priority.
    shown = [{key: part for key, part in column.items() if key != "description"} for column in columns]
    return {**found, "metadata": value(found.get("metadata"), user), "columnDefinitions": shown, "rows": rows}
