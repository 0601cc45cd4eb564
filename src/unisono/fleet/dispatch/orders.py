"""Orders to Volcano Jobs of a hub (Commands): carried out where a job waits, else handed on to its member."""

from __future__ import annotations

from typing import Final

from unisono.api.annotations import HUB
from unisono.api.base import ObjectMeta
from unisono.api.commands import target_of
from unisono.api.groups.batch import Command, Job
from unisono.api.kinds import COMMANDS, JOBS
from unisono.controllers.job import view as phases
from unisono.controllers.objects import delete_seen
from unisono.controllers.owners import owned_by
from unisono.controllers.recorder import Recorder
from unisono.errors import AlreadyExists, ApiError, NotFound
from unisono.fleet.dispatch.controller import DispatchController, Members
from unisono.fleet.hub_state import HubState
from unisono.fleet.jobs.copies import Copy
from unisono.fleet.jobs.work import is_held
from unisono.fleet.members.member import Busy
from unisono.kube.controller import Context, Controller

_WAIT_SECONDS: Final = 2.0
"""Until a member that is not known to have the job, or does not answer, is looked at again."""


class OrdersController(Controller):
    """Takes each Command for a job to where the job is, and then away."""

    name = "fleet-orders"

    def __init__(self, state: HubState, members: Members, jobs: DispatchController, recorder: Recorder) -> None:
        """``members`` finds the connection to a member, ``jobs`` knows where jobs are."""
        self._state, self._members, self._jobs, self._recorder = state, members, jobs, recorder

    def setup(self, context: Context) -> None:
        """Watch Commands."""
        self._client = context.client
        self._commands = context.watch(COMMANDS)

    async def reconcile(self, key: str) -> float | None:
        """Hand one order on."""
        command = self._commands.get(key)
        subject = target_of(command) if command is not None else None
        if command is None or subject is None or subject[0] is not JOBS:
            return None
        job: Job | None = self._jobs.job(subject[1])
        target = command.target
        if job is None or (target is not None and target.uid not in (None, "", job.metadata.uid)):
            await delete_seen(self._client, COMMANDS, command)
            return None
        if self._waits_here(job):
            await self._carry_out_here(job, command)
        elif not await self._forward(job, command, self._copy(job)):
            return _WAIT_SECONDS
        await delete_seen(self._client, COMMANDS, command)
        return None

    def _waits_here(self, job: Job) -> bool:
        """Whether no member has the job: it has no place yet, or was stopped before its copy was made."""
        cluster = self._jobs.where(job).cluster
        stopped = job.status.state.phase in phases.STOPPED and self._answers(cluster)
        return not cluster or (stopped and self._current(job) is None)

    def _copy(self, job: Job) -> Copy | None:
        """The copy that runs the job, as far as the hub knows; none while it is held back."""
        current = self._current(job)
        if current is None or not self._answers(current[0].cluster) or (is_held(current[1]) and not is_held(job)):
            return None
        return current[0]

    def _current(self, job: Job) -> tuple[Copy, Job] | None:
        placement, uid = self._jobs.where(job), job.metadata.uid
        expected = (placement.cluster, placement.generation, uid)
        for copy, obj in self._state.copies(JOBS, job.key):
            if (copy.cluster, copy.generation, copy.origin) == expected and isinstance(obj, Job):
                return copy, obj
        return None

    def _answers(self, cluster: str) -> bool:
        view = self._state.views.get(cluster)
        return view is not None and view.reachable

    async def _forward(self, job: Job, command: Command, copy: Copy | None) -> bool:
        """Give the order to the member; False when it cannot be given now."""
        member = self._members(copy.cluster) if copy is not None else None
        if copy is None or member is None:
            return False
        target = owned_by(JOBS, Job(metadata=ObjectMeta(name=copy.name, uid=copy.uid)))
        order = Command(
            metadata=ObjectMeta(
                name=command.metadata.name,
                namespace=copy.namespace,
                labels={HUB: self._state.hub},
                owner_references=[target],
            ),
            action=command.action,
            target=target,
            reason=command.reason,
            message=command.message,
        )
        try:
            async with member.writing() as client:
                await client.create(COMMANDS, order)
        except (AlreadyExists, NotFound):
            return True
        except Busy:
            return False
        except ApiError as error:
            if error.code == 403:
                text = f"member {copy.cluster} takes no orders from this hub; join it again to renew its rights"
                self._recorder.event(job, "Warning", "OrderRefused", f"{command.action}: {text}")
                return True
            raise
        return True

    async def _carry_out_here(self, job: Job, command: Command) -> None:
        """A job that waits has no pods: what follows an order follows at once."""
        phase = job.status.state.phase or phases.PENDING
        change = phases.transition(phase, command.action or "")
        if change is None:
            return
        after = phases.KILLING.get(change.to, phases.PENDING)
        state = {"phase": after, "reason": command.action, "message": command.message}
        await self._jobs.write_status(job, {"state": state})
