"""What other pods have to do with it that no node takes a pod: affinities, anti-affinities and spread constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from unisono.api.messages import counted
from unisono.api.names import did_you_mean, nearest
from unisono.cluster.podclass import PodClass
from unisono.cluster.selectors import Selector, SelectorBook, Spread
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.common.topology_spread import NOT_NEAR, TOO_NEAR, UNWANTED, SpreadFilter, required_by_others
from unisono.engine.verdict import reference

_MOST_PODS = 2_000
"""Pods whose labels are looked at."""
_MOST_DOMAINS = 4


def company(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int], namespace: str) -> Iterator[str]:
    """Topology keys that no node has, selectors that select no pod, and pods that stand too near."""
    session, terms = cycle.session, pod_class.terms
    known = session.snapshot.nodes.label_keys()
    for term in terms.near if NOT_NEAR.text in counts else ():
        if term.key not in known:
            yield f"pod affinity asks for the topology key {term.key}, which no node has{did_you_mean(term.key, known)}"
        pairs = _labels(cycle, term.selector)
        if not session.domains.selected(term.selector).counts.any():
            if term.key in known and terms.near_all in pod_class.matched:
                own = f"the same {term.key} as pods with {_pairs(pairs)}, and its own are such pods"
                yield f"pod affinity asks for {own}: one {term.key} has to hold them all"
            else:
                yield _no_company(cycle, term.selector, pairs, namespace)
        elif term.key in known:
            yield f"pod affinity asks for the same {term.key} as pods with {_pairs(pairs)}"
    for term in terms.away if TOO_NEAR.text in counts else ():
        pairs = _labels(cycle, term.selector)
        yield f"pod anti-affinity allows no other pod with {_pairs(pairs)} in the same {term.key}"
    if UNWANTED.text in counts:
        yield from _unwanted(cycle, pod_class)


def _labels(cycle: Cycle, selector: int) -> dict[str, str]:
    found = cycle.session.snapshot.affinity_index.selectors.all.get(selector)
    return dict((found.labels.match_labels or {}) if found is not None and found.labels else {})


def _pairs(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(pairs.items())) or "the labels that it selects"


def _unwanted(cycle: Cycle, pod_class: PodClass) -> Iterator[str]:
    """Pods with places whose anti-affinity keeps the class away."""
    for held in required_by_others(pod_class, cycle.session.domains):
        if held.weight:
            continue
        owners = [
            f"{reference(task.key, 'pod')} on {task.node}"
            for task in cycle.session.snapshot.tasks.values()
            if task.node and held.term in task.pod_class.terms.away
        ]
        if owners:
            who = listed(tuple(sorted(owners)))
            pairs = _pairs(_labels(cycle, held.term.selector))
            yield f"the anti-affinity of {who} allows no pod with {pairs} in the same {held.term.key}"


def _no_company(cycle: Cycle, selector: int, pairs: Mapping[str, str], namespace: str) -> str:
    """No placed pod has the labels that an affinity asks for; a near miss of the namespace, or another namespace."""
    placed = list(islice((task for task in cycle.session.snapshot.tasks.values() if task.node), _MOST_PODS))
    book = cycle.session.snapshot.affinity_index.selectors
    term = book.all.get(selector)
    seen = {one for one in {task.namespace for task in placed} if _sees(book, term, one, namespace)}
    labels = [task.labels for task in placed if task.namespace in seen]
    meant = ""
    for key, value in pairs.items():
        values = sorted({one[key] for one in labels if key in one})
        if value in values:
            continue
        near_key = "" if values else nearest(key, sorted({name for one in labels for name in one}))
        near = nearest(value, values)
        if near or near_key:
            meant = f" (did you mean {near_key or key}={near or value}?)"
            break
        if values:
            shown = listed(tuple(f"{key}={one}" for one in values[:_MOST_DOMAINS]))
            meant = f" (pods have {shown}{' and others' if len(values) > _MOST_DOMAINS else ''})"
    text = f"pod affinity asks for a pod with {_pairs(pairs)}, and no pod on a node has it{meant}"
    elsewhere = {task.namespace for task in placed if pairs and pairs.items() <= task.labels.items()} - seen
    if meant or not elsewhere:
        return text
    spaces = f"namespace{'s' if len(elsewhere) > 1 else ''} {listed(tuple(sorted(elsewhere)))}"
    wanted = (term.namespace_selector.match_labels if term is not None and term.namespace_selector else None) or {}
    if wanted:
        have = "have" if len(elsewhere) > 1 else "has"
        return f"{text} in a namespace labelled {_pairs(wanted)}: such pods run in {spaces}, which {have} no such label"
    return f"{text} in namespace {namespace}: such pods run in {spaces}, which the term does not name"


def _sees(book: SelectorBook, term: Selector | None, space: str, namespace: str) -> bool:
    if term is None:
        return space == namespace
    return term.sees(space, lambda name: book.namespace_labels.get(name, {}))


def uneven(cycle: Cycle, pod_class: PodClass) -> Iterator[str]:
    """Spread constraints that keep the class away, with how many pods each domain has."""
    known = cycle.session.snapshot.nodes.label_keys()
    absent = [spread.key for spread in pod_class.terms.spread if spread.hard and spread.key not in known]
    for key in absent:
        yield f"topology spread asks for the label {key}, which no node has{did_you_mean(key, known)}"
    found = SpreadFilter.of(pod_class, cycle.session) if not absent else None
    for spread, domains in found.domains() if found is not None else ():
        yield _skew(spread, domains)


def _skew(spread: Spread, domains: Mapping[str, int]) -> str:
    text = f"topology spread allows a skew of {spread.max_skew} over {spread.key}"
    if spread.min_domains > len(domains):
        there = counted(len(domains), "such domain")
        return f"{text} and wants at least {spread.min_domains} domains (minDomains), and there {_are(there)}"
    ordered = sorted(domains.items(), key=lambda one: (one[1], one[0]))
    if ordered and ordered[-1][1] - ordered[0][1] < spread.max_skew:
        return f"{text}, which the pods of the gang itself would exceed"
    told = ", ".join(f"{value} {number}" for value, number in ordered[:_MOST_DOMAINS])
    more = f", and {len(ordered) - _MOST_DOMAINS} more" if len(ordered) > _MOST_DOMAINS else ""
    return f"{text} (pods per domain: {told}{more})" if ordered else text


def _are(there: str) -> str:
    return f"{'is' if there.startswith('1 ') else 'are'} {there}"
