"""The grammar of label and field selectors, and the parser's words."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.apiserver.selectors import parse_field_selector, parse_label_selector, selected_name
from unisono.apiserver.storage.objects import StoredEntry
from unisono.errors import ApiError

LABELS = {"app": "web", "tier": "front", "count": "5", "empty": "", "example.org/x": "y"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("   ", True),
        ("app", True),
        ("!app", False),
        ("! missing", True),
        ("missing", False),
        ("app=web", True),
        ("app==web", True),
        (" app = web ", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=web", True),
        ("missing=", False),
        ("empty=", True),
        ("empty=,app", True),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app in(web)", True),
        ("app notin (db,web)", False),
        ("missing notin (db)", True),
        ("empty in (,a)", True),
        ("empty in (a,)", True),
        ("count>4", True),
        ("count > 5", False),
        ("count<6", True),
        ("app>4", False),
        ("missing<4", False),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("example.org/x=y", True),
        ("app=web,", None),
        ("in=1", False),
        ("notin notin (notin)", True),
        ("in in (in)", False),
    ],
)
def test_label_selectors(text, expected):
    if expected is None:
        with pytest.raises(ApiError):
            parse_label_selector(text)
        return
    matches = parse_label_selector(text)
    assert (matches is None or matches(LABELS)) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("!=b", "found '!=', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a=b,,c", "found ',', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: !=, =, ==, gt, in, lt, notin"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in ()", "for 'in', 'notin' operators, values set can't be empty"),
        ("a>x", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("-a", 'unable to parse requirement: key: Invalid value: "-a": name part must consist of'),
        ("UPPER.org/a", 'key: Invalid value: "UPPER.org/a"'),
        ("a=" + "x" * 64, "a valid label must be an empty string or consist of alphanumeric characters"),
        ("a=b/c", 'values[0][a]: Invalid value: "b/c"'),
    ],
)
def test_label_selectors_that_cannot_be_read(text, message):
    with pytest.raises(ApiError) as caught:
        parse_label_selector(text)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert message in caught.value.message


@given(st.text(alphabet="ab=!(),<> \tinot/.-1é", max_size=40))
def test_any_text_is_a_selector_or_a_bad_request(text):
    for parse in (parse_label_selector, lambda each: parse_field_selector(each, "pods")):
        try:
            parse(text)
        except ApiError as error:
            assert error.code == 400


names = st.from_regex(r"[a-z]([a-z0-9-]{0,5}[a-z0-9])?", fullmatch=True)


@given(names, st.lists(names, min_size=1, max_size=4), st.dictionaries(names, names, max_size=4))
def test_notin_is_the_opposite_of_in(key, values, labels):
    inside = parse_label_selector(f"{key} in ({','.join(values)})")
    outside = parse_label_selector(f"{key} notin ({','.join(values)})")
    assert inside(labels) is (labels.get(key) in values)
    assert outside(labels) is not inside(labels)


def entry(resource, value, name="n", namespace="ns"):
    return StoredEntry(resource, namespace, name, 1, msgspec.json.encode({"metadata": {"name": name}, **value}))


POD = entry(
    "pods",
    {
        "spec": {"nodeName": "n1", "hostNetwork": True, "schedulerName": "volcano"},
        "status": {"phase": "Running", "podIP": "127.1.2.3", "podIPs": [{"ip": "127.1.2.3"}]},
    },
)
EVENT = entry(
    "events",
    {
        "involvedObject": {"kind": "Pod", "name": "p", "uid": "u"},
        "reason": "Killed",
        "source": {"component": "agent"},
        "type": "Warning",
    },
)


@pytest.mark.parametrize(
    ("one", "text", "expected"),
    [
        (POD, "", True),
        (POD, "metadata.name=n", True),
        (POD, "metadata.name==n,metadata.namespace=ns", True),
        (POD, "metadata.namespace!=ns", False),
        (POD, "spec.nodeName=n1", True),
        (POD, "spec.host=n1", True),
        (POD, "spec.nodeName!=n1", False),
        (POD, "spec.hostNetwork=true", True),
        (POD, "spec.schedulerName=volcano,status.phase!=Failed", True),
        (POD, "status.podIPs=127.1.2.3", True),
        (POD, "status.nominatedNodeName=", True),
        (POD, "spec.restartPolicy=Always", False),
        (EVENT, "involvedObject.kind=Pod,involvedObject.name=p,involvedObject.uid=u", True),
        (EVENT, "involvedObject.namespace=x", False),
        (EVENT, "source=agent,type=Warning,reason=Killed", True),
        (entry("nodes", {"spec": {}}), "spec.unschedulable=false", True),
        (entry("nodes", {"spec": {"unschedulable": True}}), "spec.unschedulable=true", True),
        (entry("nodes", {}), "spec.unschedulable=true", False),
        (entry("secrets", {"type": "Opaque"}), "type=Opaque", True),
        (entry("services", {"spec": {"clusterIP": "None"}}), "spec.clusterIP=None,spec.type=", True),
        (entry("namespaces", {"status": {"phase": "Active"}}, namespace=""), "status.phase=Active", True),
        (entry("secrets", {"type": "a,b=c\\d"}), r"type=a\,b\=c\\d", True),
    ],
)
def test_field_selectors(one, text, expected):
    matches = parse_field_selector(text, one.resource)
    assert (matches is None or matches(one)) is expected


@pytest.mark.parametrize(
    ("resource", "text", "message"),
    [
        ("pods", "spec.foo=1", "field label not supported: spec.foo"),
        ("configmaps", "spec.nodeName=1", "field label not supported: spec.nodeName"),
        ("jobs.batch.volcano.sh", "status.phase=x", "field label not supported: status.phase"),
        ("pods", "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("pods", "a=b=c", "can't understand 'a=b=c'"),
    ],
)
def test_field_selectors_that_are_refused(resource, text, message):
    with pytest.raises(ApiError) as caught:
        parse_field_selector(text, resource)
    assert caught.value.code == 400
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("metadata.name=a", "a"),
        ("status.phase=x,metadata.name==a", "a"),
        ("metadata.name!=a", None),
        ("metadata.name=", None),
        ("", None),
    ],
)
def test_a_pinned_name_is_recognised(text, name):
    assert selected_name(text) == name
