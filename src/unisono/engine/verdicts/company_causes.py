"""What other pods have to do with it that no node takes a pod: affinities, anti-affinities and spread constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from unisono.api.annotations import APART, NEAR, SPREAD, TIER
from unisono.api.base import LabelSelectorRequirement
from unisono.api.core import Affinity
from unisono.api.keys import GROUP_NAME
from unisono.api.messages import counted
from unisono.api.names import did_you_mean, nearest
from unisono.cluster.podclass import PodClass
from unisono.cluster.selectors import Selector, SelectorBook, Spread, Term
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.common.topology_spread import NOT_NEAR, TOO_NEAR, UNWANTED, SpreadFilter, required_by_others
from unisono.engine.verdict import reference

_MOST_PODS = 2_000
"""Pods whose labels are looked at."""
_MOST_DOMAINS = 4
_MOST_TIERS = 8


def company(cycle: Cycle, pod_class: PodClass, counts: Mapping[str, int], namespace: str) -> Iterator[str]:
    """Topology keys that no node has, selectors that select no pod, and pods that stand too near."""
    session, terms = cycle.session, pod_class.terms
    existing_keys = session.snapshot.topology_keys()
    for at, term in enumerate(terms.near if NOT_NEAR.text in counts else ()):
        rule, where, who = _rule(pod_class, NEAR, at), _where(term.key), _who(cycle, term.selector)
        if term.key not in existing_keys:
            yield f"{rule} asks for {_unknown(cycle, term.key)}"
        if not session.domains.selected(term.selector).counts.any():
            if term.key in existing_keys and terms.near_all in pod_class.matched:
                own = f"the same {where} as {who}, and its own are such pods"
                yield f"{rule} asks for {own}: one {where} has to hold them all"
            else:
                yield _no_company(cycle, rule, term.selector, namespace)
        elif term.key in existing_keys:
            yield f"{rule} asks for the same {where} as {who}{_there(cycle, term)}"
    for at, term in enumerate(terms.away if TOO_NEAR.text in counts else ()):
        rule, who = _rule(pod_class, APART, at), _who(cycle, term.selector, term.but)
        yield f"{rule} allows no {'' if 'gang' in who else 'other '}{who} in the same {_where(term.key)}"
    if UNWANTED.text in counts:
        yield from _unwanted(cycle, pod_class)


def _rule(pod_class: PodClass, word: str, at: int) -> str:
    """What states the required term (or spread constraint) of this number: the spec's come first, then annotations'."""
    spec = pod_class.base.spec
    affinity = spec.affinity or Affinity()
    side = {NEAR: affinity.pod_affinity, APART: affinity.pod_anti_affinity}.get(word)
    required = side.required_during_scheduling_ignored_during_execution if side is not None else None
    own = len((spec.topology_spread_constraints if word == SPREAD else required) or ())
    return (
        {NEAR: "pod affinity", APART: "pod anti-affinity", SPREAD: "topology spread"}[word]
        if at < own
        else (f"annotation {word}")
    )


def _where(key: str) -> str:
    """A domain, for people: the label's key, or the tier."""
    return f"HyperNode of {key.removeprefix(TIER)}" if key.startswith(TIER) else key


def _unknown(cycle: Cycle, key: str) -> str:
    """That no node has a topology key, and what was probably meant."""
    snapshot = cycle.session.snapshot
    if not key.startswith(TIER):
        return f"the topology key {key}, which no node has{did_you_mean(key, snapshot.topology_keys())}"
    tiers = snapshot.hyper_nodes.names_of_tiers()
    there = f"there are {listed(tuple(tiers[:_MOST_TIERS]))}" if tiers else "there are no HyperNodes"
    return f"a {_where(key)}, a tier of no HyperNode; {there}"


def _there(cycle: Cycle, term: Term) -> str:
    """The HyperNodes in which the pods of a term are; labels are not repeated, for nodes show them."""
    if not term.key.startswith(TIER):
        return ""
    snapshot, counts = cycle.session.snapshot, cycle.session.domains.selected(term.selector).counts
    codes = snapshot.domains_of(term.key)
    names = snapshot.domain_names(term.key)
    hyper_nodes = sorted({names[at] for at in codes[(counts > 0) & (codes >= 0)].tolist()})
    more = f" and {len(hyper_nodes) - _MOST_DOMAINS} more" if len(hyper_nodes) > _MOST_DOMAINS else ""
    return f", which are in {listed(tuple(hyper_nodes[:_MOST_DOMAINS]))}{more}" if hyper_nodes else ""


def _who(cycle: Cycle, selector: int, but: int = -1) -> str:
    """``pods with app=trainer of other gangs``: those of a selector, without those of the selector ``but``."""
    asked, pairs = _expressions(cycle, selector), _labels(cycle, selector)
    parted = [one.key for one in asked if one.operator == "NotIn"]
    parted += [one.key for one in _expressions(cycle, but) if one not in asked]
    if any(one.key == GROUP_NAME and one.operator == "In" for one in asked) and not pairs:
        return f"pods of its own gang{f' with another {parted[0]}' if parted else ''}"
    return f"pods with {_pairs(pairs)}{' of other gangs' if GROUP_NAME in parted else ''}"


def _expressions(cycle: Cycle, selector: int) -> Sequence[LabelSelectorRequirement]:
    pods = cycle.session.snapshot.affinity_index.selectors.all.get(selector)
    return (pods.labels.match_expressions if pods is not None and pods.labels else None) or ()


def _labels(cycle: Cycle, selector: int) -> dict[str, str]:
    term = cycle.session.snapshot.affinity_index.selectors.all.get(selector)
    return dict((term.labels.match_labels or {}) if term is not None and term.labels else {})


def _pairs(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(pairs.items())) or "the labels that it selects"


def _unwanted(cycle: Cycle, pod_class: PodClass) -> Iterator[str]:
    """Pods with places whose anti-affinity keeps the class away."""
    for held, _ in required_by_others(pod_class, cycle.session.domains):
        owners = {
            f"{reference(task.key, 'pod')} on {task.node}": term.but
            for task in cycle.session.snapshot.tasks.values()
            for term in (task.pod_class.terms.away if task.node else ())
            if term[:2] == held.term[:2] and term.but not in pod_class.matched
        }
        if owners:
            who = listed(tuple(sorted(owners)))
            kept = _who(cycle, held.term.selector, next(iter(owners.values())))
            yield f"the anti-affinity of {who} allows no {kept} in the same {_where(held.term.key)}"


def _no_company(cycle: Cycle, rule: str, selector: int, namespace: str) -> str:
    """No placed pod has the labels that an affinity asks for; a near miss of the namespace, or another namespace."""
    pairs = _labels(cycle, selector)
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
    text = f"{rule} asks for a pod with {_pairs(pairs)}, and no pod on a node has it{meant}"
    elsewhere = {task.namespace for task in placed if pairs and pairs.items() <= task.labels.items()} - seen
    if meant or not elsewhere:
        return text
    spaces = f"namespace{'s' if len(elsewhere) > 1 else ''} {listed(tuple(sorted(elsewhere)))}"
    namespace_labels = (
        term.namespace_selector.match_labels if term is not None and term.namespace_selector else None
    ) or {}
    if namespace_labels:
        have = "have" if len(elsewhere) > 1 else "has"
        labelled = f"{text} in a namespace labelled {_pairs(namespace_labels)}"
        return f"{labelled}: such pods run in {spaces}, which {have} no such label"
    return f"{text} in namespace {namespace}: such pods run in {spaces}, which the term does not name"


def _sees(book: SelectorBook, term: Selector | None, space: str, namespace: str) -> bool:
    if term is None:
        return space == namespace
    return term.sees(space, lambda name: book.namespace_labels.get(name, {}))


def uneven(cycle: Cycle, pod_class: PodClass) -> Iterator[str]:
    """Spread constraints that keep the class away, with how many pods each domain has."""
    existing_keys = cycle.session.snapshot.topology_keys()
    every = pod_class.terms.spread
    absent = [spread for spread in every if spread.hard and spread.key not in existing_keys]
    for spread in absent:
        what = _unknown(cycle, spread.key).replace("the topology key", "the label")
        yield f"{_rule(pod_class, SPREAD, every.index(spread))} asks for {what}"
    spread_filter = SpreadFilter.of(pod_class, cycle.session) if not absent else None
    for spread, domains in spread_filter.domains() if spread_filter is not None else ():
        yield _skew(_rule(pod_class, SPREAD, every.index(spread)), spread, domains)


def _skew(rule: str, spread: Spread, domains: Mapping[str, int]) -> str:
    where = f"HyperNodes of {spread.key.removeprefix(TIER)}" if spread.key.startswith(TIER) else spread.key
    text = f"{rule} allows a skew of {spread.max_skew} over {where}"
    if spread.min_domains > len(domains):
        there = counted(len(domains), "such domain")
        return f"{text} and wants at least {spread.min_domains} domains (minDomains), and there {_are(there)}"
    ordered = sorted(domains.items(), key=lambda one: (one[1], one[0]))
    if ordered and ordered[-1][1] - ordered[0][1] < spread.max_skew:
        return f"{text}, which the pods of the gang itself would exceed"
    counts = ", ".join(f"{value} {number}" for value, number in ordered[:_MOST_DOMAINS])
    more = f", and {len(ordered) - _MOST_DOMAINS} more" if len(ordered) > _MOST_DOMAINS else ""
    return f"{text} (pods per domain: {counts}{more})" if ordered else text


def _are(there: str) -> str:
    return f"{'is' if there.startswith('1 ') else 'are'} {there}"
