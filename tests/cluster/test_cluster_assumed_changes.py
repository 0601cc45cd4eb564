"""Changes on their way to the server count in what it tells meanwhile, until it tells them itself."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from unisono.api.base import ObjectMeta
from unisono.api.core import PersistentVolume
from unisono.cluster.catalogue import ObjectsByKey


def volume(version: int, uid: str = "u", **labels: str) -> PersistentVolume:
    meta = ObjectMeta(name="v", uid=uid, resource_version=str(version), labels=labels or None)
    return PersistentVolume(metadata=meta)


def labels(shelf: ObjectsByKey[PersistentVolume]) -> dict[str, str]:
    return dict(shelf["v"].metadata.labels or {})


def labelled(owner: str, obj: PersistentVolume) -> PersistentVolume:
    meta = obj.metadata
    return volume(int(meta.resource_version or 0), meta.uid or "", **{owner: "mine", **(meta.labels or {})})


def shows(owner: str, obj: PersistentVolume) -> bool:
    return owner in (obj.metadata.labels or {})


def since(owner: str, version: int, obj: PersistentVolume) -> bool:
    return shows(owner, obj) or int(obj.metadata.resource_version or 0) >= version


def assume(shelf: ObjectsByKey[PersistentVolume], owner: str) -> None:
    shelf.assume("v", owner, partial(labelled, owner), partial(shows, owner))


def shelf_with(*owners: str) -> ObjectsByKey[PersistentVolume]:
    shelf: ObjectsByKey[PersistentVolume] = ObjectsByKey()
    shelf.put(volume(1))
    for owner in owners:
        assume(shelf, owner)
    return shelf


def test_a_change_counts_until_it_is_told() -> None:
    shelf = shelf_with("a")
    assert labels(shelf) == {"a": "mine"}
    assert shelf.put(volume(2, x="other"))
    assert labels(shelf) == {"a": "mine", "x": "other"}
    assert shelf.put(volume(3, a="told"))
    assert labels(shelf) == {"a": "told"}
    assert shelf.put(volume(4))
    assert labels(shelf) == {}, "what was told may be taken back"


def test_news_that_a_change_hides_are_no_news() -> None:
    shelf = shelf_with("a")
    assert not shelf.put(volume(2))
    assert not shelf.put(volume(3, a="mine"))


def test_a_change_that_is_given_up_leaves_what_was_told_last() -> None:
    shelf = shelf_with("a", "b")
    shelf.put(volume(2, x="other"))
    shelf.end("v", "a")
    assert labels(shelf) == {"b": "mine", "x": "other"}
    shelf.end("v", "b")
    shelf.end("v", "b")
    assert labels(shelf) == {"x": "other"}


def test_a_written_change_may_be_undone_before_it_is_heard_of() -> None:
    """Of a list, only the last state is heard of."""
    shelf = shelf_with("a")
    shelf.written("v", "a", partial(since, "a", 5))
    shelf.put(volume(4))
    assert labels(shelf) == {"a": "mine"}
    shelf.put(volume(7))
    assert labels(shelf) == {}


def test_a_written_change_that_has_been_heard_of_counts_no_more() -> None:
    shelf = shelf_with("a")
    shelf.put(volume(5))
    shelf.written("v", "a", partial(since, "a", 5))
    assert labels(shelf) == {}


def test_another_object_of_the_same_name_is_not_changed() -> None:
    shelf = shelf_with("a")
    shelf.put(volume(9, "another"))
    assert labels(shelf) == {}
    assume(shelf, "b")
    shelf.remove("v")
    shelf.put(volume(10, "third"))
    assert labels(shelf) == {}
    assume(shelf_with(), "nobody")
    shelf.assume("absent", "a", partial(labelled, "a"), partial(shows, "a"))
    assert "absent" not in shelf


@given(st.lists(st.tuples(st.sampled_from(["put", "told", "assume", "end", "written"]), st.sampled_from("ab"))))
def test_the_newest_told_state_and_the_open_changes_make_the_object(steps: list[tuple[str, str]]) -> None:
    shelf = shelf_with()
    told: dict[str, str] = {}
    # Changes that still count, and those of them of which the next state that is told is new enough.
    counting: set[str] = set()
    done: set[str] = set()
    for version, (step, owner) in enumerate(steps, start=2):
        match step:
            case "put" | "told":
                told = {owner: "told"} if step == "told" else {}
                counting -= done | told.keys()
                shelf.put(volume(version, **told))
            case "assume":
                counting.add(owner)
                done.discard(owner)
                assume(shelf, owner)
            case "end":
                counting.discard(owner)
                shelf.end("v", owner)
            case "written":
                done.add(owner)
                counting -= told.keys() & {owner}
                shelf.written("v", owner, partial(since, owner, version))
        assert labels(shelf) == {**dict.fromkeys(counting, "mine"), **told}
