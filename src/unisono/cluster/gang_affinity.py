"""The terms of a pod about other pods: those of its spec, and those that annotations stand for (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.core import PodSpec
from unisono.api.gang_affinity import said, with_wishes
from unisono.api.keys import GROUP_NAME
from unisono.cluster.label_index import Labels
from unisono.cluster.records import Task
from unisono.cluster.selectors import NO_TERMS, PodTerms, SelectorBook, has_terms, terms_of


def terms_for(
    spec: PodSpec,
    whose: tuple[str, str, Labels],
    annotations: Mapping[str, str],
    of_gang: Mapping[str, str] | None,
    selectors: SelectorBook,
    *,
    placed: bool,
) -> PodTerms:
    """The terms of a pod, those that annotations stand for included.

    Args:
        spec: of the pod.
        whose: its namespace, the name of its PodGroup, and its labels.
        annotations: of the pod.
        of_gang: what its PodGroup says in such annotations.
        selectors: where terms are interned.
        placed: it has a node.

    Raises:
        ValueError: an annotation cannot be read. Not of a pod that has a node: an annotation that is
            edited later must not take the pod out of its queue.
    """
    try:
        wishes = said(annotations, of_gang)
    except ValueError:
        if not placed:
            raise
        wishes = ()
    if not wishes and not has_terms(spec):
        return NO_TERMS
    namespace, gang, labels = whose
    if wishes:
        spec = with_wishes(spec, wishes, labels, gang)
    return terms_of(spec, namespace, {**labels, GROUP_NAME: gang} if gang else labels, selectors)


def terms_of_task(task: Task, spec: PodSpec, of_gang: Mapping[str, str] | None, selectors: SelectorBook) -> PodTerms:
    """The same of a pod that is known, with a spec like its own."""
    whose = task.namespace, task.job.partition("/")[2], task.labels
    return terms_for(spec, whose, task.annotations, of_gang, selectors, placed=bool(task.node))
