"""Reading and writing objects with Kubernetes' semantics, on encoded JSON; HTTP and the local client sit on top."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from unisono.api.kind import Kind
from unisono.api.kind_families import APPLICATIONS
from unisono.api.kinds import COMMANDS, SERVICES
from unisono.apiserver import encoding, failures
from unisono.apiserver.access.user import User
from unisono.apiserver.admission import Admission, cluster, quotas
from unisono.apiserver.authorization.authorizer import Action, Authorizer, Committed, version_of
from unisono.apiserver.authorization.roles import Deputies, Escalation, rules_of
from unisono.apiserver.custom import definitions
from unisono.apiserver.encoding import selector_for
from unisono.apiserver.flow_control import Shares
from unisono.apiserver.operations import deletion, reads, subresources, writes
from unisono.apiserver.operations.addresses import Addresses, Pick
from unisono.apiserver.operations.context import Context, Write, random_suffix, random_uid
from unisono.apiserver.operations.reads import Watch
from unisono.apiserver.storage.store import Store
from unisono.apiserver.types import Deleted, DeleteOptions, Page, PatchType, StoreEvent, WriteOptions, Written
from unisono.apiserver.webhooks.calling import data_of


def _nobody(_: str) -> None:
    pass


class ObjectService:
    """All operations; every failure is an ``errors.ApiError`` with Kubernetes' message, code and reason.

    ``kind`` may be a served kind or ``dataclasses.replace(kind, version=alias)``: answers carry that apiVersion.
    ``namespace`` is None for cluster-scoped kinds and for lists over all namespaces.

    A write answers after the disk has it. Between reading the object and queueing the change the event loop is not
    given up, so that two writers of one service never overwrite each other.
    """

    def __init__(
        self,
        store: Store,
        *,
        admission: Admission | None = None,
        clock: Callable[[], float] = time.time,
        new_uid: Callable[[], str] = random_uid,
        new_suffix: Callable[[], str] = random_suffix,
        pick: Pick = secrets.randbelow,
    ) -> None:
        self.store = store
        self.view = Committed(store)
        self.authorizer = Authorizer(self.view, version_of(store))
        admission = admission or Admission()
        deputies = Deputies(self.authorizer)
        admission.extend(
            checking={
                **rules_of(Escalation(self.authorizer)),
                COMMANDS.resource: (deputies.check_command,),
                APPLICATIONS.resource: (deputies.check_application,),
            },
            mutating={SERVICES.resource: (Addresses(store, pick).assign,)},
            completing=(partial(cluster.note_queues, deputies.may_use),),
            everywhere=(
                deputies.check_owners,
                partial(cluster.check_use, deputies.may_use),
                partial(quotas.check_storage_room, store.stored_bytes, admission.settings.namespace_bytes),
            ),
        )
        self.context = Context(store, admission, clock, new_uid, new_suffix)
        self.hooks = self.context.hooks
        self.shares = Shares()
        store.answer_by(self.shares.rhythm.at_next)
        self._snapshots = reads.Snapshots()
        self._told_certificate: Callable[[str], None] = _nobody

    def on_certificate(self, told: Callable[[str], None]) -> None:
        """Tell ``told`` the certificate that clients trust, in PEM, when the server that listens says it."""
        self._told_certificate = told

    def publish_certificate(self, certificate: str) -> None:
        """Say which certificate (PEM) clients of this server trust."""
        self._told_certificate(certificate)

    def follow_kinds(self, follower: Callable[[Iterable[Kind[Any]]], None]) -> None:
        """Tell ``follower`` the user-defined kinds that are served, now and whenever they change."""
        registry = self.context.custom
        registry.follow(lambda: follower(registry.served()))

    async def get(self, kind: Kind[Any], namespace: str | None, name: str, subresource: str = "") -> bytes:
        """One object, or its Scale with ``subresource="scale"``.

        Raises:
            NotFound: it does not exist.
        """
        stored = self.context.stored_kind(kind)
        entry = self.store.get(self.context.key(stored, namespace, name))
        if entry is None:
            raise failures.not_found(stored, name)
        await self.context.conversions.know(stored, [entry.data])
        data = encoding.as_version(entry.data, stored, kind)
        return (
            definitions.encode(definitions.scale_of(kind, encoding.json_value(data)))
            if subresource == "scale"
            else data
        )

    async def list(
        self,
        kind: Kind[Any],
        namespace: str | None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        exact: bool = False,
    ) -> Page:
        """A consistent list, sorted by namespace and name; all pages show the first one's snapshot.

        With ``exact`` the objects are shown as they were at ``resource_version``; without, not older than that.

        Raises:
            ApiError: 400 for bad selectors or tokens.
            Gone: the list that ``continue_token`` belongs to, or the history to go back, is no longer kept.
            Unavailable: 504 for a resourceVersion that does not come within three seconds.
        """
        return await reads.list_page(
            self.context,
            self._snapshots,
            kind,
            namespace,
            labels=label_selector,
            fields=selector_for(kind, field_selector),
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
            exact=exact,
        )

    def watch(
        self,
        kind: Kind[Any],
        namespace: str | None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float | None = None,
        bookmarks: bool = False,
        send_initial_events: bool = False,
    ) -> AsyncIterator[StoreEvent]:
        """Changes after ``resource_version``; absent or "0": the present objects as ADDED first.

        With ``send_initial_events`` the present objects come first in any case, and with ``bookmarks`` they are
        ended by a bookmark annotated ``k8s.io/initial-events-end``. The stream ends after ``timeout_seconds``, or when
        the store closes.

        Raises:
            ApiError: 400 for bad selectors, by the call itself.
            Gone: 410 while iterating, when the history from there on is no longer kept.
        """
        stored = self.context.stored_kind(kind)
        since = reads.parse_revision(resource_version)
        field_selector = selector_for(kind, field_selector)
        matches = reads.selector(stored, label_selector, field_selector)
        from_now = send_initial_events or not since
        present = reads.candidates(self.context, stored, namespace, field_selector) if from_now else ()
        return Watch(
            context=self.context,
            kind=kind,
            stored=stored,
            namespace=namespace if stored.namespaced else None,
            matches=matches,
            since=None if from_now else since,
            timeout=timeout_seconds,
            bookmarks=bookmarks,
            mark_initial=bookmarks and (send_initial_events or resource_version == "0"),
            present=present,
            revision=self.store.revision,
        ).events()

    async def create(
        self, kind: Kind[Any], namespace: str | None, body: dict[str, Any], options: WriteOptions
    ) -> Written:
        """Store a new object.

        Raises:
            AlreadyExists: the name is taken.
            Invalid: a rule is broken; nothing is stored.
            ApiError: 400 for another kind or version or, under Strict, unknown fields; 403 and 404 from admission.
        """
        return await writes.create(Write.of(self.context, kind, namespace, "", options), body)

    async def update(
        self,
        kind: Kind[Any],
        namespace: str | None,
        name: str,
        body: dict[str, Any],
        options: WriteOptions,
        subresource: str = "",
    ) -> Written:
        """Replace an object or, with ``subresource="status"``, its status.

        Raises:
            Conflict: the body's resourceVersion or uid is not the present one.
        """
        write = Write.of(self.context, kind, namespace, name, options, subresource)
        if subresource == "scale":
            return await subresources.change(write, lambda _: body)
        return await writes.update(write, body)

    async def patch(
        self,
        kind: Kind[Any],
        namespace: str | None,
        name: str,
        patch: Any,
        patch_type: PatchType,
        options: WriteOptions,
        subresource: str = "",
    ) -> Written:
        """Patch an object; ``patch`` is decoded JSON (a list for ``json``, an object otherwise).

        A patch that changes nothing answers the object as it is and makes no event. ``apply`` is server-side apply,
        which also creates objects; ``options.field_manager`` owns what it names.

        Raises:
            Conflict: the patch names a resourceVersion or uid that is not the present one, or an applied
                configuration changes fields of other managers without ``options.force``.
            ApiError: 400 for a malformed patch, 415 for a type that the kind does not take.
        """
        write = Write.of(self.context, kind, namespace, name, options, subresource)
        if subresource == "scale":
            return await subresources.patch(write, patch, patch_type)
        if patch_type == "apply":
            self._require_create(write)
            return await writes.apply(write, patch)
        return await writes.patch(write, patch, patch_type)

    def _require_create(self, write: Write) -> None:
        """An apply that creates needs the right to create, not only the one to patch."""
        kind, namespace, name, options = write.kind, write.namespace, write.name, write.options
        if not options.user or self.store.latest(self.context.key(write.stored, namespace, name)) is not None:
            return
        action = Action("create", group=kind.group, resource=kind.plural, namespace=namespace, name=name)
        self.authorizer.require(User(options.user, options.groups), action)

    async def delete(self, kind: Kind[Any], namespace: str | None, name: str, options: DeleteOptions) -> Deleted:
        """Delete an object, at once, gracefully or when its finalizers are gone.

        Raises:
            NotFound: it does not exist.
            Conflict: a precondition fails.
        """
        return await deletion.delete(self.context, kind, namespace, name, options)

    async def delete_collection(
        self,
        kind: Kind[Any],
        namespace: str | None,
        options: DeleteOptions,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Page:
        """Delete all that match; answers them as they were."""
        stored = self.context.stored_kind(kind)
        fields = selector_for(kind, field_selector)
        revision = self.store.revision
        scanned = reads.candidates(self.context, stored, namespace, fields)
        entries = await reads.matching(self.context, stored, scanned, label_selector, fields)
        await self.context.conversions.know(stored, data_of(entries))
        await deletion.delete_all(self.context, kind, entries, options)
        return Page(reads.Shown(entries, stored, kind), revision)

    async def bind(self, namespace: str, pod: str, binding: dict[str, Any], options: WriteOptions) -> Sequence[str]:
        """Assign a pod to ``binding.target.name``; its labels and annotations go to the pod. Answers warnings.

        Raises:
            Conflict: the pod is bound, being deleted, gated, or another one than ``binding.metadata.uid``.
        """
        return await subresources.bind(self.context, namespace, pod, binding, options)

    async def evict(self, namespace: str, pod: str, eviction: dict[str, Any], options: WriteOptions) -> Sequence[str]:
        """Delete a pod for a client that needs its node. Answers warnings.

        Raises:
            NotFound: it does not exist.
            Conflict: a precondition in ``eviction.deleteOptions`` fails.
        """
        return await subresources.evict(self.context, namespace, pod, eviction, options)
