"""Rules of HyperNodes that concern one object alone."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.field_error import FieldError, invalid, required
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.topology import HyperNode, MemberSpec
from unisono.api.validation.meta import validate_selector

_NONE = "Either ExactMatch or RegexMatch or LabelMatch must be specified"
_SEVERAL = "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"


def validate_hyper_node(node: HyperNode, old: HyperNode | None) -> Iterator[FieldError]:
    """A tier, and members that each say in exactly one way which nodes or HyperNode they mean."""
    spec = node.spec
    if spec.tier is None:
        yield required("spec.tier", "say how good the network is: 1 below one switch, 2 below the next, ...")
    if not spec.members:
        yield required("spec.members", "member must have at least one member")
    for index, member in enumerate(spec.members or ()):
        yield from _member(node.metadata.name, member, f"spec.members[{index}]")


def _member(owner: str, member: MemberSpec, path: str) -> Iterator[FieldError]:
    selector = member.selector
    given = [] if selector is None else [selector.exact_match, selector.regex_match, selector.label_match]
    number = sum(each is not None for each in given)
    if selector is None or number != 1:
        yield invalid(f"{path}.selector", "", _SEVERAL if number else _NONE)
        return
    if selector.exact_match is not None:
        name = selector.exact_match.name
        if not name:
            yield required(f"{path}.selector.exactMatch.name", "member exactMatch must have a name")
        elif member.type == "HyperNode" and name == owner:
            yield invalid(f"{path}.selector.exactMatch.name", name, "a HyperNode cannot be a member of itself")
    elif member.type == "HyperNode":
        yield invalid(f"{path}.selector", "", "a member of type HyperNode must be named by exactMatch")
    if selector.regex_match is not None:
        yield from _pattern(selector.regex_match.pattern or "", f"{path}.selector.regexMatch.pattern")
    yield from validate_selector(selector.label_match, f"{path}.selector.labelMatch")


def _pattern(text: str, path: str) -> Iterator[FieldError]:
    if not text:
        yield required(path, "member regexMatch must have a pattern")
        return
    try:
        compile_pattern(text)
    except PatternError as error:
        yield invalid(path, text, f"member regexMatch pattern is invalid: {error}")
