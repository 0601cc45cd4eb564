"""Objects and texts without what users keep secret (pure).

Fields are kept by name: what is not known to be harmless is replaced, so that a field of tomorrow does not leak. What
was replaced in an object is also replaced wherever it shows up in a text, such as a log or the message of an event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

REDACTED = "REDACTED"

# Texts that say what the scheduler works with; others, such as env values, commands and inline files, are replaced.
_HARMLESS = frozenset(
    (
        "apiVersion",
        "kind",
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "selfLink",
        "continue",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
        "lastProbeTime",
        "lastUpdateTime",
        "startTime",
        "completionTime",
        "finishedAt",
        "startedAt",
        "firstTimestamp",
        "lastTimestamp",
        "eventTime",
        "renewTime",
        "acquireTime",
        "holderIdentity",
        "leaseTransitions",
        "phase",
        "state",
        "type",
        "status",
        "reason",
        "message",
        "action",
        "event",
        "events",
        "queue",
        "parent",
        "schedulerName",
        "nodeName",
        "nominatedNodeName",
        "priorityClassName",
        "preemptionPolicy",
        "restartPolicy",
        "image",
        "fieldPath",
        "resource",
        "controller",
        "blockOwnerDeletion",
        "mode",
        "highestTierName",
        "tierName",
        "schedule",
        "timeZone",
        "concurrencyPolicy",
        "cleanPodPolicy",
        "successPolicy",
        "completionMode",
        "dequeueStrategy",
        "qosClass",
        "unit",
        "transitionID",
        "reportingComponent",
        "reportingInstance",
        "component",
        "host",
        "finalizers",
        "scope",
        "group",
        "version",
        "plural",
        "singular",
        "shortNames",
        "categories",
        "kinds",
        "listKind",
        "storedVersions",
        "operations",
        "apiGroups",
        "apiVersions",
        "resources",
        "failurePolicy",
        "matchPolicy",
        "sideEffects",
        "reinvocationPolicy",
        "admissionReviewVersions",
        "expression",
        "policyName",
        "validationActions",
        "protocol",
        "unschedulable",
        "providerID",
        "iteration",
        "targets",
        "replicaSpecs",
        "jobRetainPolicy",
        "containerID",
        "imageID",
        "podIP",
        "hostIP",
    )
)
# Everything below these is harmless: amounts, labels and what selects by them.
_HARMLESS_TREES = frozenset(
    (
        "labels",
        "matchLabels",
        "nodeSelector",
        "taints",
        "tolerations",
        "matchExpressions",
        "matchFields",
        "affinity",
        "topologySpreadConstraints",
        "requests",
        "limits",
        "capacity",
        "allocatable",
        "capability",
        "deserved",
        "guarantee",
        "guaranteed",
        "allocated",
        "minResources",
        "hard",
        "used",
        "minTaskMember",
        "networkTopology",
        "nodeInfo",
        "ownerReferences",
        "involvedObject",
        "regarding",
        "min",
        "max",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
        "names",
        "additionalPrinterColumns",
        "conditions",
    )
)
# Annotations of the field itself; those of users and of kubectl repeat what else is in the object.
_ANNOTATIONS = re.compile(r"^([a-z0-9.-]+\.)?(volcano\.sh|unisono\.io|scheduling\.k8s\.io)/")
# What a program said, or was given, at its end.
_OUTPUT = frozenset({"terminated"})
_DROPPED = frozenset({"managedFields", "openAPIV3Schema", "caBundle"})
# A shorter text, such as "1" or "true", says nothing, and would be replaced all over.
_SHORTEST = 6
_PATTERNS = (
    re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]+"),
    re.compile(
        r"""(?i)(?<![\w])((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential))["']?\s*[:=]\s*["']?)([^\s"',}]+)"""
    ),
)


class Redaction:
    """Replaces, and remembers what was replaced."""

    def __init__(self) -> None:
        self._hidden: set[str] = set()
        self._by_start: dict[str, list[str]] | None = None

    @property
    def hidden(self) -> int:
        """Number of different texts that were replaced in objects."""
        return len(self._hidden)

    def clean(self, value: Any, key: str = "", within: str = "") -> Any:
        """A JSON value without secrets; ``key`` is the field that holds it, ``within`` the one above that."""
        if isinstance(value, dict):
            if key == "annotations":
                return {name: self._annotation(name, text) for name, text in value.items()}
            if key in _HARMLESS_TREES:
                return {name: each for name, each in value.items() if name not in _DROPPED}
            return {name: self.clean(each, name, key) for name, each in value.items() if name not in _DROPPED}
        if isinstance(value, list):
            return value if key in _HARMLESS_TREES else [self.clean(each, key, within) for each in value]
        output = key == "message" and within in _OUTPUT
        if not isinstance(value, str) or (key in _HARMLESS and not output):
            return value
        return self.hide(value)

    def _annotation(self, name: str, text: Any) -> Any:
        return text if _ANNOTATIONS.match(name) else self.hide(str(text))

    def hide(self, text: str) -> str:
        """Replace a text here and, from now on, wherever else it shows up."""
        self._by_start = None
        if not text:
            return text
        # A text of several lines, such as a script, may be repeated in parts.
        for part in (text, *text.splitlines()):
            if len(part.strip()) >= _SHORTEST:
                self._hidden |= {part.strip(), json.dumps(part.strip())[1:-1]}
        return REDACTED

    def scrub(self, text: str) -> str:
        """A text without anything that was hidden, and without what looks like a credential."""
        for pattern in _PATTERNS:
            text = pattern.sub(lambda match: f"{match[1]}{REDACTED}" if match.re.groups else REDACTED, text)
        starts = self._starts()
        if not starts:
            return text
        made: list[str] = []
        at = done = 0
        while at <= len(text) - _SHORTEST:
            found = next(
                (each for each in starts.get(text[at : at + _SHORTEST], ()) if text.startswith(each, at)), None
            )
            if found is None or found == REDACTED:
                at += 1
                continue
            made += (text[done:at], REDACTED)
            at = done = at + len(found)
        return "".join((*made, text[done:]))

    def _starts(self) -> Mapping[str, list[str]]:
        """What was hidden by its first characters, longest first: one pass over a text finds all."""
        if self._by_start is None:
            self._by_start = {}
            for each in sorted(self._hidden, key=len, reverse=True):
                self._by_start.setdefault(each[:_SHORTEST], []).append(each)
        return self._by_start


def lines_of(redaction: Redaction, items: Iterable[Mapping[str, Any]]) -> str:
    """Objects as one JSON object a line."""
    return "".join(json.dumps(redaction.clean(dict(item)), sort_keys=True) + "\n" for item in items)
