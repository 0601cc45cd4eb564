"""Conversion webhooks of definitions: what they are asked, and objects out of what they answer (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api import names
from unisono.api.core.crd import CustomResourceConversion
from unisono.api.groups.admission_registration import WebhookClientConfig
from unisono.apiserver.flow_control import DEEPEST, too_deep

GROUP = "apiextensions.k8s.io"
_REVIEWS = ("v1", "v1beta1")
Document = dict[str, Any]


class BadConversion(ValueError):
    """The answer is no conversion of what was asked."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Who converts the objects of a definition.

    Attributes:
        client: where it listens.
        review: version of ``ConversionReview`` that it is sent.

    """

    client: WebhookClientConfig
    review: str


def webhook_of(conversion: CustomResourceConversion | None) -> Webhook | None:
    """The webhook of a definition; None when versions differ in ``apiVersion`` only."""
    if conversion is None or conversion.strategy != "Webhook":
        return None
    given = conversion.webhook or {}
    client = msgspec.convert(given.get("clientConfig") or {}, WebhookClientConfig)
    known = given.get("conversionReviewVersions") or ()
    return Webhook(client, next((each for each in known if each in _REVIEWS), _REVIEWS[0]))


def question(webhook: Webhook, uid: str, objects: Sequence[Document], api_version: str) -> Document:
    """The review that asks for ``objects`` in ``api_version``."""
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(objects)}
    return {"apiVersion": f"{GROUP}/{webhook.review}", "kind": "ConversionReview", "request": request}


def read_answer(webhook: Webhook, uid: str, body: bytes) -> list[Any]:
    """The converted objects, unchecked.

    Raises:
        BadConversion: the webhook refuses, or answers something else.

    """
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadConversion(f"the answer is no JSON: {error}") from None
    if too_deep(review):
        raise BadConversion(f"the answer is nested more than {DEEPEST} levels deep")
    if not isinstance(review, dict) or not isinstance(review.get("response"), dict):
        raise BadConversion("no response provided")
    response: Document = review["response"]
    if webhook.review == "v1":
        expected = f"{GROUP}/v1, Kind=ConversionReview"
        found = f"{review.get('apiVersion')}, Kind={review.get('kind')}"
        if found != expected:
            raise BadConversion(f"expected webhook response of {expected}, got {found}")
        if response.get("uid") != uid:
            raise BadConversion(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        said = result.get("message")
        raise BadConversion(str(said or f"response.result.status was '{result.get('status') or ''}', not 'Success'"))
    converted = response.get("convertedObjects")
    return converted if isinstance(converted, list) else []


def take(original: Document, converted: Any, api_version: str) -> Document:
    """A converted object: the webhook's content, labels and annotations, and all other metadata as they were.

    Raises:
        BadConversion: it is another object, another version, or no object.

    """
    if not isinstance(converted, dict):
        raise BadConversion("it is no object")
    if converted.get("apiVersion") != api_version:
        found = converted.get("apiVersion") or ""
        raise BadConversion(f"invalid groupVersion (expected {api_version}, received {found})")
    if converted.get("kind") != original["kind"]:
        raise BadConversion(f"invalid kind (expected {original['kind']}, received {converted.get('kind') or ''})")
    said, metadata = converted.get("metadata"), dict(original["metadata"])
    if not isinstance(said, dict):
        raise BadConversion("missing metadata in converted object")
    for name, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = metadata.get(name) or "", said.get(name) or ""
        if before != after:
            raise BadConversion(f"must have the same {word}: {before} != {after}")
    for name in ("labels", "annotations"):
        metadata.pop(name, None)
        texts = _texts(f"metadata.{name}", said.get(name))
        if texts:
            metadata[name] = texts
    header = ("apiVersion", "kind", "metadata")
    content = {name: value for name, value in converted.items() if name not in header}
    return {"apiVersion": api_version, "kind": original["kind"], "metadata": metadata, **content}


def _texts(path: str, found: Any) -> Mapping[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadConversion(f"invalid {path} of type {type(found).__name__} in converted object")
    problems = list(_wrong(path, found))
    if problems:
        raise BadConversion("; ".join(problems))
    return found


def _wrong(path: str, found: Mapping[str, Any]) -> Iterator[str]:
    for key, value in found.items():
        if not isinstance(value, str):
            yield f"{path}[{key}] must be a string, but is {type(value).__name__} in converted object"
            continue
        for problem in names.qualified_name(key):
            yield f'{path}: Invalid value: "{key}": {problem}'
        if path == "metadata.labels":
            for problem in names.label_value(value):
                yield f'{path}: Invalid value: "{value}": {problem}'
