"""Which words of others on an object have no effect here, by the register in `others_words` (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

from unisono.api import annotations as own_keys
from unisono.api import keys
from unisono.api.names import did_you_mean
from unisono.jobkinds.others_words import WORDS, Word
from unisono.jobkinds.paths import walk

_KEYS: Final = {word.key: word for word in WORDS if word.at == "key" and not word.key.endswith("/*")}
_DOMAINS: Final = {word.key.removesuffix("/*"): word for word in WORDS if word.key.endswith("/*")}
_SCHEDULERS: Final = {word.key: word for word in WORDS if word.at == "scheduler"}
_RESOURCES: Final = tuple(word for word in WORDS if word.at == "resource")
_HONOURED: Final = tuple(word.key for word in WORDS if word.becomes == "honoured")
_MANAGERS: Final = {word.key: word for word in WORDS if word.at == "manager"}
_MANAGED_BY: Final = ("spec.managedBy", "spec.runPolicy.managedBy")
_SUSPEND: Final = ("spec.suspend", "spec.runPolicy.suspend")
_METADATA: Final = ("metadata.labels", "metadata.annotations")
_CONTAINERS: Final = ("containers", "initContainers")

_PREFIX: Final = "unisono.io/"
_NAMES_OF_ONE_MODULE: Final = (
    "attempt folder given-by-limit nested-too-deep pod-restarts policy provisioning-class restart-round restarted-pods"
    " restarts slurm-job-id slurm-job-name unused-since volume-node worker-groups"
)
_OWN: Final = frozenset(
    (
        *(name for name in vars(own_keys).values() if isinstance(name, str) and name.startswith(_PREFIX)),
        *(_PREFIX + name for name in _NAMES_OF_ONE_MODULE.split()),
    )
)
"""Every key of Unisono's own that something reads or writes."""
_UNKNOWN: Final = Word("Unisono", f"{_PREFIX}*", "not one that is known", "warned", "see docs/ for those that are read")


def row_of(key: str) -> Word | None:
    """The row of a label's or an annotation's key; None where nobody is known to read it."""
    if key.startswith(_PREFIX):
        return None if key in _OWN else _UNKNOWN
    word = _KEYS.get(key)
    domain, slash, _ = key.partition("/")
    while word is None and slash and domain:
        word = _DOMAINS.get(domain)
        domain = domain.partition(".")[2]
    return word


@lru_cache(maxsize=1024)
def _resource(name: str) -> Word | None:
    return next((word for word in _RESOURCES if fnmatchcase(name, word.key)), None)


def without_effect(obj: Any, templates: tuple[str, ...] = (), served: frozenset[str] = frozenset()) -> list[str]:
    """A sentence for each word of others on an object, or on its pods' templates, that is not read here.

    Args:
        obj: a struct, or JSON values.
        templates: paths of its pod templates.
        served: keys that are read where the object is.
    """
    sentences: dict[str, str] = {}

    def tell(word: Word, at: str, name: str) -> None:
        if word.becomes != "warned" or name in sentences or name in served:
            return
        near = did_you_mean(name, (*_HONOURED, *_OWN)) if word.key.endswith("*") else ""
        whose = f"is {word.project}'s ({word.meaning})"
        sentences[name] = f"{at} {whose}, and has no effect on Unisono{near}: {word.instead}"

    above = ("", *(f"{each}." for each in templates))
    schedulers = [found for each in above for found in walk(obj, f"{each}spec.schedulerName")]
    for at, name in schedulers:
        if name in _SCHEDULERS:
            tell(_SCHEDULERS[name], f"{at}: {name}", name)
    for at, name in (found for each in _MANAGED_BY for found in walk(obj, each)):
        if name in _MANAGERS:
            tell(_MANAGERS[name], f"{at}: {name}", name)
    theirs = {name for _, name in schedulers}
    for at, entries in (found for each in above for place in _METADATA for found in walk(obj, f"{each}{place}")):
        for key in entries if isinstance(entries, Mapping) else ():
            word = row_of(key)
            if word is not None and (not word.scheduler or word.scheduler in theirs):
                tell(word, f"{at}[{key}]", key)
    for each in above:
        for part in _CONTAINERS:
            for at, entries in walk(obj, f"{each}spec.{part}[*].resources.limits"):
                for name in entries if isinstance(entries, Mapping) else ():
                    if (of_cards := _resource(name)) is not None:
                        tell(of_cards, f"{at}[{name}]", name)
    if keys.KUEUE_QUEUE in sentences:
        for at, suspended in (found for each in _SUSPEND for found in walk(obj, each)):
            if suspended is True:
                sentences[at] = f"{at} stays true on Unisono, where Kueue would lift it: leave it out"
    # Of quotas: a weight stood there among the resources.
    for at, entries in walk(obj, "spec.hard"):
        for name in entries if isinstance(entries, Mapping) else ():
            if name in _KEYS:
                tell(_KEYS[name], f"{at}[{name}]", name)
    return list(sentences.values())
