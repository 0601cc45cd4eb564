"""From templates to pods: short names of templates, and numbers or percentages of replicas."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping
from copy import copy
from typing import Any

import msgspec

from unisono.api import names
from unisono.api.base import IntOrString, Object, ObjectMeta
from unisono.api.core import Pod, PodTemplateSpec
from unisono.api.kind import Kind
from unisono.controllers.keys import whole_number
from unisono.controllers.owners import owned_by

# Numbers or percentages of replicas.


def amount(value: IntOrString | None, total: int, *, up: bool) -> int:
    """``value``, or that percentage of ``total`` rounded up or down; 0 where it is nothing readable."""
    if isinstance(value, int):
        return value
    percent = whole_number(value[:-1]) if value is not None and value.endswith("%") else None
    if percent is None:
        return 0
    share = percent * total / 100
    return math.ceil(share) if up else math.floor(share)


# From templates to pods, and the short names of templates.

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58


def short_hash(value: Any, salt: int | None = None) -> str:
    """Up to ten letters and digits that stand for a value, equal for equal values on every machine.

    Args:
        value: a struct, or JSON values.
        salt: number of collisions seen so far; changes the answer.

    """
    digest = hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=8)
    if salt:
        digest.update(str(salt).encode())
    number, text = int.from_bytes(digest.digest()[:6], "big"), ""
    for _ in range(10):
        number, rest = divmod(number, len(_ALPHABET))
        text += _ALPHABET[rest]
    return text


def generated_name(owner: str, source: random.Random) -> str:
    """A new name for something that ``owner`` makes."""
    suffix = "".join(source.choices(_ALPHABET, k=5))
    return f"{f'{owner}-'[:_LONGEST_BASE]}{suffix}"


def pod_from(
    template: PodTemplateSpec,
    kind: Kind[Any],
    owner: Object,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: list[str] | None = None,
) -> Pod:
    """A pod of the owner's namespace, which goes when the owner goes.

    Its spec may get other fields. What lies deeper is the template's own and must be replaced, not changed: a copy
    of a large template for each of hundreds of pods would hold up all other objects.

    Args:
        template: the pod's template.
        kind: kind of the owner.
        owner: its controller.
        name: the pod's name.
        labels: labels beside the template's.
        annotations: annotations beside the template's.
        finalizers: finalizers beside the template's.

    """
    meta = template.metadata
    prefix = f"{owner.metadata.name}-"
    return Pod(
        metadata=ObjectMeta(
            name=name,
            generate_name=prefix if not names.dns_subdomain(f"{prefix}a") and name.startswith(prefix) else None,
            namespace=owner.metadata.namespace,
            labels={**(meta.labels or {}), **(labels or {})} or None,
            annotations={**(meta.annotations or {}), **(annotations or {})} or None,
            finalizers=[*(meta.finalizers or ()), *(finalizers or ())] or None,
            owner_references=[owned_by(kind, owner)],
        ),
        spec=copy(template.spec),
    )
