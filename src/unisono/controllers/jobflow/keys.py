"""Labels and annotations of jobs that a flow made: from which template, and for which flow."""

from __future__ import annotations

import hashlib
from typing import Final

from unisono.api.base import Object

BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
BY_FLOW: Final = "volcano.sh/createdByJobFlow"
# Longest value of a label.
_LONGEST = 63
_DIGEST = 10


def made_for(namespace: str, flow: str, template: str) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations: ``<namespace>.<name>`` of the flow and of the template.

    A label has room for 63 characters; a longer value is cut there and told apart by a digest. Annotations have all.
    """
    annotations = {BY_FLOW: f"{namespace}.{flow}", BY_TEMPLATE: f"{namespace}.{template}"}
    return {key: label_value(value) for key, value in annotations.items()}, annotations


def label_value(text: str) -> str:
    """The text as the value of a label."""
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{text[: _LONGEST - _DIGEST - 1]}-{digest}"


def template_keys(job: Object) -> list[str]:
    """Key of the template from which the job was made, ``namespace/name``; names may contain dots."""
    value = (job.metadata.annotations or {}).get(BY_TEMPLATE, "")
    namespace = job.metadata.namespace or ""
    name = value.removeprefix(f"{namespace}.")
    return [f"{namespace}/{name}"] if name and name != value else []
