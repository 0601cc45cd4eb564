"""The life of a definition: accepted, served, changed, deleted with its objects; names that are taken; restarts."""

from __future__ import annotations

import pytest

from support.backends import DELETE, DRY, OPTIONS, opened, settle, value
from support.definitions import CRDS, crd, define, obj_schema, served, version, widget
from unisono.api.kinds import NAMESPACES, QUEUES
from unisono.errors import ApiError, Invalid, NotFound

WIDGETS = "widgets.example.com"
REPLICAS = obj_schema(spec=obj_schema(replicas={"type": "integer"}))


@pytest.fixture
async def backend():
    async with opened() as backend:
        yield backend


def conditions(stored):
    return {each["type"]: (each["status"], each["reason"]) for each in stored["status"]["conditions"]}


async def read(backend, name=WIDGETS):
    return value(await backend.service.get(CRDS, None, name))


async def test_a_definition_is_accepted_and_served_at_once(backend):
    created = value((await backend.service.create(CRDS, None, crd(shortNames=["wd"]), OPTIONS)).object)
    assert conditions(created) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert created["status"]["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
    }
    assert created["status"]["storedVersions"] == ["v1"]
    kind = served(backend.service.context)
    made = value((await backend.service.create(kind, "default", widget(spec={"a": [1, {"b": None}]}), OPTIONS)).object)
    assert made["spec"] == {"a": [1, {"b": None}]}
    assert made["metadata"]["generation"] == 1
    page = await backend.service.list(kind, None)
    assert [value(item)["metadata"]["name"] for item in page.items] == ["w"]


async def test_a_dry_run_defines_nothing(backend):
    await backend.service.create(CRDS, None, crd(), DRY)
    assert backend.service.context.custom.find("example.com/v1", "Widget") is None


async def test_a_deleted_definition_takes_its_objects_along(backend):
    service = backend.service
    kind = await define(service, crd())
    for name in ("a", "b"):
        await service.create(kind, "default", widget(name), OPTIONS)
    answer = await service.delete(CRDS, None, WIDGETS, DELETE)
    ending = value(answer.object)
    assert ending["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(ending)["Terminating"] == ("True", "InstanceDeletionPending")
    await settle(backend)
    with pytest.raises(NotFound):
        await read(backend)
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        await service.list(kind, None)
    # A definition of the same name begins without the old objects.
    again = await define(service, crd())
    assert not (await service.list(again, None)).items


async def test_objects_with_finalizers_hold_their_definition(backend):
    service = backend.service
    kind = await define(service, crd())
    body = widget("held")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await service.create(kind, "default", body, OPTIONS)
    await service.delete(CRDS, None, WIDGETS, DELETE)
    await settle(backend)
    assert conditions(await read(backend))["Terminating"] == ("True", "InstanceDeletionInProgress")
    with pytest.raises(ApiError, match="create not allowed while custom resource definition is terminating") as caught:
        await service.create(kind, "default", widget("late"), OPTIONS)
    assert caught.value.code == 403
    patch = {"metadata": {"finalizers": None}}
    await service.patch(kind, "default", "held", patch, "merge", OPTIONS)
    await settle(backend)
    with pytest.raises(NotFound):
        await read(backend)


async def test_names_belong_to_the_first_definition_of_a_group(backend):
    service = backend.service
    await define(service, crd(shortNames=["wd"]))
    second = crd("gadgets", shortNames=["gd", "wd"])
    waiting = value((await service.create(CRDS, None, second, OPTIONS)).object)
    accepted = {each["type"]: each for each in waiting["status"]["conditions"]}
    assert accepted["NamesAccepted"]["reason"] == "ShortNamesConflict"
    assert accepted["NamesAccepted"]["message"] == '"wd" is already in use'
    assert accepted["Established"]["status"] == "False"
    assert service.context.custom.find("example.com/v1", "Gadget") is None
    # Another group may use the same names.
    await service.create(CRDS, None, crd("doodads", group="other.example.com", shortNames=["wd"]), OPTIONS)
    await service.delete(CRDS, None, WIDGETS, DELETE)
    await settle(backend)
    assert conditions(await read(backend, "gadgets.example.com"))["Established"][0] == "True"
    served(service.context, "Gadget")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"kind": "Widget"}, "KindConflict"),
        ({"singular": "widget"}, "SingularConflict"),
        ({"listKind": "WidgetList"}, "ListKindConflict"),
        ({"shortNames": ["widgets"]}, "ShortNamesConflict"),
    ],
)
async def test_every_name_can_clash(backend, names, reason):
    await define(backend.service, crd())
    other = crd("gadgets", **{"singular": "gadget", "listKind": "GadgetList", **names})
    made = value((await backend.service.create(CRDS, None, other, OPTIONS)).object)
    assert conditions(made)["NamesAccepted"] == ("False", reason)


async def test_a_changed_schema_holds_at_once(backend):
    service = backend.service
    kind = await define(service, crd("widgets", version(schema=REPLICAS)))
    await service.create(kind, "default", widget(spec={"replicas": 3}), OPTIONS)
    stricter = obj_schema(
        spec=obj_schema(replicas={"type": "integer", "maximum": 2}, color={"type": "string", "default": "red"})
    )
    current = await read(backend)
    current["spec"]["versions"] = [version(schema=stricter)]
    updated = value((await service.update(CRDS, None, WIDGETS, current, OPTIONS)).object)
    assert updated["metadata"]["generation"] == 2
    kind = served(service.context)
    shown = value(await service.get(kind, "default", "w"))
    assert shown["spec"] == {"replicas": 3, "color": "red"}
    with pytest.raises(Invalid, match="should be less than or equal to 2"):
        await service.create(kind, "default", widget("x", {"replicas": 3}), OPTIONS)
    # What was valid before may stay, as long as nobody touches it.
    patch = {"spec": {"color": "blue"}}
    changed = value((await service.patch(kind, "default", "w", patch, "merge", OPTIONS)).object)
    assert changed["spec"] == {"replicas": 3, "color": "blue"}
    with pytest.raises(Invalid, match="should be less than or equal to 2"):
        await service.patch(kind, "default", "w", {"spec": {"replicas": 4}}, "merge", OPTIONS)


async def test_fields_that_a_schema_forgets_are_not_shown(backend):
    service = backend.service
    kind = await define(service, crd())
    await service.create(kind, "default", widget(spec={"replicas": 3, "old": True}), OPTIONS)
    current = await read(backend)
    current["spec"]["versions"] = [version(schema=REPLICAS)]
    await service.update(CRDS, None, WIDGETS, current, OPTIONS)
    page = await service.list(served(service.context), "default")
    assert value(page.items[0])["spec"] == {"replicas": 3}


async def test_several_versions_show_the_same_object(backend):
    service = backend.service
    old = obj_schema(spec=obj_schema(size={"type": "integer"}, note={"type": "string", "default": "none"}))
    new = obj_schema(spec=obj_schema(size={"type": "integer"}, color={"type": "string", "default": "red"}))
    definition = crd("widgets", version("v1beta1", old, storage=False), version("v1", new))
    await define(service, definition)
    beta = served(service.context, at="v1beta1")
    body = widget(spec={"size": 2, "note": "hi"}, api="v1beta1")
    made = value((await service.create(beta, "default", body, OPTIONS)).object)
    assert made["apiVersion"] == "example.com/v1beta1"
    # The storage version does not know the note, and None converts nothing but apiVersion.
    assert made["spec"] == {"size": 2, "note": "none"}
    shown = value(await service.get(served(service.context), "default", "w"))
    assert shown["apiVersion"] == "example.com/v1"
    assert shown["spec"] == {"size": 2, "color": "red"}
    patched = await service.patch(beta, "default", "w", {"spec": {"size": 3}}, "merge", OPTIONS)
    assert value(patched.object)["spec"] == {"size": 3, "note": "none"}


async def test_the_storage_version_can_move(backend):
    service = backend.service
    await define(service, crd("widgets", version("v1", REPLICAS)))
    await service.create(served(service.context), "default", widget(spec={"replicas": 1}), OPTIONS)
    current = await read(backend)
    current["spec"]["versions"] = [version("v1", REPLICAS, storage=False), version("v2", REPLICAS)]
    updated = value((await service.update(CRDS, None, WIDGETS, current, OPTIONS)).object)
    assert updated["status"]["storedVersions"] == ["v1", "v2"]
    for at in ("v1", "v2"):
        shown = value(await service.get(served(service.context, at=at), "default", "w"))
        assert (shown["apiVersion"], shown["spec"]) == (f"example.com/{at}", {"replicas": 1})
    current = await read(backend)
    current["spec"]["versions"] = [version("v2", REPLICAS)]
    with pytest.raises(Invalid, match=r"v1 was previously a storage version, and must remain in spec\.versions"):
        await service.update(CRDS, None, WIDGETS, current, OPTIONS)


async def test_a_version_that_is_no_longer_served_is_not_found(backend):
    service = backend.service
    await define(service, crd("widgets", version("v1"), version("v1beta1", storage=False)))
    beta = served(service.context, at="v1beta1")
    current = await read(backend)
    current["spec"]["versions"][1]["served"] = False
    await service.update(CRDS, None, WIDGETS, current, OPTIONS)
    with pytest.raises(NotFound):
        await service.list(beta, None)


async def test_housekeeping_reaches_objects_whose_storage_version_is_not_served(backend):
    service = backend.service
    definition = crd("widgets", version("v1", served=False), version("v2", storage=False))
    await define(service, definition, at="v2")
    kind = served(service.context, at="v2")
    await service.create(kind, "default", widget(api="v2"), OPTIONS)
    await service.delete(CRDS, None, WIDGETS, DELETE)
    await settle(backend)
    with pytest.raises(NotFound):
        await read(backend)


async def test_everything_is_there_after_a_restart(tmp_path):
    path = tmp_path / "data.db"
    async with opened(path) as backend:
        kind = await define(backend.service, crd("widgets", version(schema=REPLICAS)))
        await backend.service.create(kind, "default", widget(spec={"replicas": 1}), OPTIONS)
        before = await read(backend)
    async with opened(path) as backend:
        assert await read(backend) == before
        kind = served(backend.service.context)
        assert value(await backend.service.get(kind, "default", "w"))["spec"] == {"replicas": 1}
        with pytest.raises(Invalid):
            await backend.service.create(kind, "default", widget("x", {"replicas": "many"}), OPTIONS)


async def test_an_interrupted_deletion_goes_on_after_a_restart(tmp_path):
    path = tmp_path / "data.db"
    async with opened(path) as backend:
        kind = await define(backend.service, crd())
        body = widget("held")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await backend.service.create(kind, "default", body, OPTIONS)
        await backend.service.delete(CRDS, None, WIDGETS, DELETE)
        await settle(backend)
    async with opened(path) as backend:
        kind = served(backend.service.context)
        await backend.service.patch(kind, "default", "held", {"metadata": {"finalizers": None}}, "merge", OPTIONS)
        await settle(backend)
        with pytest.raises(NotFound):
            await read(backend)


async def test_definitions_of_built_in_kinds_can_be_applied_and_change_nothing(backend):
    service = backend.service
    name = "queues.scheduling.volcano.sh"
    current = await read(backend, name)
    current["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "properties": {"spec": obj_schema(other={"type": "string"})}}
    }
    await service.update(CRDS, None, name, current, OPTIONS)
    assert value(await service.get(QUEUES, None, "default"))["spec"]["weight"] == 1
    with pytest.raises(ApiError, match="the kind is built into this server"):
        await service.delete(CRDS, None, name, DELETE)


async def test_an_ending_namespace_takes_user_defined_objects_along(backend):
    service = backend.service
    kind = await define(service, crd())
    await service.create(
        NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}, OPTIONS
    )
    await service.create(kind, "n", widget(), OPTIONS)
    await service.create(kind, "default", widget(), OPTIONS)
    await service.delete(NAMESPACES, None, "n", DELETE)
    await settle(backend)
    with pytest.raises(NotFound):
        await service.get(NAMESPACES, None, "n")
    page = await service.list(kind, None)
    assert [value(item)["metadata"]["namespace"] for item in page.items] == ["default"]


async def test_user_defined_objects_follow_their_owners(backend):
    service = backend.service
    kind = await define(service, crd())
    owner = value((await service.create(kind, "default", widget("owner"), OPTIONS)).object)
    body = widget("dependent")
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"]}
    ]
    await service.create(kind, "default", body, OPTIONS)
    await settle(backend)
    assert len((await service.list(kind, None)).items) == 2
    await service.delete(kind, "default", "owner", DELETE)
    await settle(backend)
    assert not (await service.list(kind, None)).items
