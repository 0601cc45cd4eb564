"""The embedded API without its HTTP surface: store, service, garbage collector and the other housekeepers, together."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from unisono.apiserver.admission import Admission
from unisono.apiserver.bootstrap import bootstrap
from unisono.apiserver.housekeeping.accounts import DefaultAccounts
from unisono.apiserver.housekeeping.definitions import DefinitionController
from unisono.apiserver.housekeeping.expiry import EventExpiry
from unisono.apiserver.housekeeping.gc import GarbageCollector
from unisono.apiserver.housekeeping.namespaces import NamespaceController
from unisono.apiserver.housekeeping.roles import RoleAggregation
from unisono.apiserver.housekeeping.root_ca import RootCertificates
from unisono.apiserver.local import LocalClient
from unisono.apiserver.operations.addresses import Pick
from unisono.apiserver.operations.context import random_suffix, random_uid
from unisono.apiserver.operations.service import ObjectService
from unisono.apiserver.storage.database import MEMORY
from unisono.apiserver.storage.history import Retention
from unisono.apiserver.storage.store import Store
from unisono.apiserver.storage.writer import Disk, Writer
from unisono.kube.clock import SYSTEM_CLOCK, Clock


class Backend:
    """Open with ``Backend.open``; ``service`` is what HTTP and local clients use."""

    def __init__(self, service: ObjectService, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.service, self.store, self._clock = service, service.store, clock
        self._collector = GarbageCollector(service.context, clock=clock)
        self._namespaces = NamespaceController(service.context, clock=clock)
        self._definitions = DefinitionController(service.context, clock=clock)
        self._expiry = EventExpiry(service.context, clock=clock)
        self._accounts = DefaultAccounts(service.context, clock=clock)
        self._roles = RoleAggregation(service.context, clock=clock)
        self._certificates = RootCertificates(service.context, clock=clock)
        service.on_certificate(self._certificates.publish)

    @classmethod
    async def open(
        cls,
        path: Path | str = MEMORY,
        *,
        admission: Admission | None = None,
        clock: Callable[[], float] = time.time,
        timers: Clock = SYSTEM_CLOCK,
        new_uid: Callable[[], str] = random_uid,
        new_suffix: Callable[[], str] = random_suffix,
        retention: Retention | None = None,
        disk: Disk | None = None,
        writer: type[Writer] = Writer,
        pick: Pick = secrets.randbelow,
    ) -> Backend:
        """Open or create the data file, create what every cluster has, and start housekeeping.

        ``disk`` stands in for the file.

        Raises:
            StoreError: the file is foreign, damaged or in use.
        """
        store = await Store.open(path, clock=clock, retention=retention, disk=disk, writer=writer)
        try:
            service = ObjectService(
                store, admission=admission, clock=clock, new_uid=new_uid, new_suffix=new_suffix, pick=pick
            )
            await bootstrap(service.context)
            backend = cls(service, clock=timers)
            backend._start()
        except BaseException:
            await store.close()
            raise
        return backend

    def client(self, user: str = "system:admin", field_manager: str = "unisono") -> LocalClient:
        """A client in this process."""
        return LocalClient(self.service, user=user, field_manager=field_manager, clock=self._clock)

    @property
    def idle(self) -> bool:
        """Housekeeping has nothing to do, and every queued write is visible."""
        keepers = (
            self._collector,
            self._namespaces,
            self._definitions,
            self._accounts,
            self._roles,
            self._certificates,
        )
        return all(keeper.idle for keeper in keepers) and not self.store.statistics()["pending"]

    async def close(self) -> None:
        """End housekeeping and watches, finish queued writes, close the file."""
        await self._collector.stop()
        await self._namespaces.stop()
        await self._definitions.stop()
        await self._accounts.stop()
        await self._roles.stop()
        await self._certificates.stop()
        await self._expiry.stop()
        await self.service.context.hooks.close()
        await self.store.close()

    def _start(self) -> None:
        self._collector.start()
        self._namespaces.start()
        self._definitions.start()
        self._accounts.start()
        self._roles.start()
        self._certificates.start()
        self._expiry.start()
