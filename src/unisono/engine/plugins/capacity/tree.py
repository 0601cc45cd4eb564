"""What each queue may hold and deserves under the capacity plug-in, flat or as a tree.

Every queue is a branch. In flat mode each stands alone; in hierarchical mode branches hang below ``root``, an inner one
holds what its descendants hold, and a limit of an ancestor holds for all of them. A queue whose place in the tree makes
no sense carries a fault, and so do those below it; all others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from unisono.api.quantity import to_milli
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job, Task
from unisono.cluster.resources import PODS
from unisono.cluster.status import ALLOCATED_STATES
from unisono.engine.plugins.proportion.claims import Claims, claims_of
from unisono.engine.plugins.proportion.division import Share, fill
from unisono.engine.session.limit import UNLIMITED, Amounts, by_row, dominant_share, listed

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session

ROOT = "root"


class Branch:
    """One queue, its place in the tree and its amounts (engine units by resource row).

    Attributes:
        name: of the queue; ``root`` exists in a tree even where no such queue does.
        queue: its state, None for an implied root.
        parent: None at the root, in flat mode, and where the parent is missing.
        fault: why nothing of this branch can be scheduled, or ``""``.
        guarantee: reserved for it; at the root the sum over its children.
        deserved: its share, which is not reclaimed.
        admission: what it may hold together with what it has promised, beside the guarantees of its siblings.
        ceiling: what it may hold: as ``admission``, and never more than queues can share of the cluster.
        held: claimed by it and its descendants, kept up to date during the session.
        members: the queues among it and its descendants.
    """

    __slots__ = (
        "admission", "ceiling", "children", "deserved", "fault", "guarantee", "held", "members", "name", "own",
        "parent", "queue",
    )  # fmt: skip

    def __init__(self, name: str, queue: QueueState | None, width: int) -> None:
        self.name = name
        self.queue = queue
        self.parent: Branch | None = None
        self.children: list[Branch] = []
        self.fault = ""
        self.own: Amounts = [UNLIMITED] * width
        self.guarantee: Amounts = [0] * width
        self.deserved: Amounts = [0] * width
        self.admission: Amounts = self.own
        self.ceiling: Amounts = self.own
        self.held: Amounts = [0] * width
        self.members: tuple[str, ...] = () if queue is None else (name,)

    def chain(self) -> Iterator[Branch]:
        """The branch and its ancestors, nearest first, the root last."""
        branch: Branch | None = self
        while branch is not None:
            yield branch
            branch = branch.parent

    def family(self) -> Iterator[Branch]:
        """The branch and all below it."""
        return _top_down(self)

    @property
    def created(self) -> float:
        """When the queue was created; an implied root has always been there."""
        return 0.0 if self.queue is None else self.queue.created

    @property
    def share(self) -> float:
        """Largest held part of what it deserves; 1 for a branch that deserves nothing."""
        return dominant_share(self.held, self.deserved) if any(self.deserved) else 1.0

    @property
    def beyond_share(self) -> bool:
        """It holds more than it deserves of some resource; ``pods`` does not count."""
        parts = enumerate(zip(self.held, self.deserved, strict=True))
        return any(held > share for row, (held, share) in parts if row != PODS)

    def move(self, rows: list[int], amounts: list[int]) -> None:
        """Add to what it and its ancestors hold."""
        for branch in self.chain():
            held = branch.held
            for row, amount in zip(rows, amounts, strict=True):
                held[row] += amount


class Branches(dict[str, Branch]):
    """All branches of a session by queue name.

    Args:
        session: the session, at its opening.
        hierarchical: whether ``spec.parent`` counts.
    """

    def __init__(self, session: Session, *, hierarchical: bool) -> None:
        registry = session.registry
        weighted = session.book.shares.deserved
        self.width, self._hierarchical = len(registry), hierarchical
        for name, queue in session.queues.items():
            branch = self[name] = Branch(name, queue, self.width)
            record = queue.record
            branch.own = by_row(record.capability, registry, UNLIMITED)
            branch.guarantee = by_row(record.guarantee, registry)
            branch.deserved = by_row(record.deserved, registry)
            if record.deserved is None:
                branch.deserved = list(weighted.get(name, branch.deserved))
            branch.held = listed(queue.claimed, registry)
        total, promisable = listed(session.sharable_total, registry), listed(session.promisable_total, registry)
        if hierarchical:
            self._grow()
        else:
            for name, amounts in _divided(list(self.values()), promisable):
                self[name].admission = amounts
        for name, amounts in self.ceilings(total).items():
            self[name].ceiling = amounts
        _fit_shares(session, self, total, promisable)
        if hierarchical:
            self._sum_up()
            return
        for branch in self.values():
            parts = zip(branch.deserved, branch.ceiling, branch.guarantee, strict=True)
            branch.deserved = [max(min(share, limit), own) for share, limit, own in parts]

    def ceilings(self, total: Amounts) -> dict[str, Amounts]:
        """What queues may hold of so much of the cluster: each beside the guarantees of all others, or its siblings."""
        if not self._hierarchical:
            return dict(_divided(list(self.values()), total))
        root = self[ROOT]
        ceiling_of = {ROOT: [min(limit, whole) for limit, whole in zip(root.own, total, strict=True)]}
        for branch in _top_down(root):
            ceiling_of.update(_divided(branch.children, ceiling_of[branch.name]))
        return ceiling_of

    # ---- the tree

    def _grow(self) -> None:
        root = self.setdefault(ROOT, Branch(ROOT, None, self.width))
        for branch in self.values():
            self._hang(branch)
        for branch in self.values():
            _find_fault(branch)
        for branch in [other for other in self.values() if other.fault]:
            branch.parent = None
            branch.children = []
        for branch in self.values():
            branch.children = [child for child in branch.children if not child.fault]
        root.fault = ""
        root.admission = root.own
        for branch in _top_down(root):
            for name, amounts in _divided(branch.children, branch.admission):
                self[name].admission = amounts

    def _hang(self, branch: Branch) -> None:
        if branch.name == ROOT or branch.queue is None:
            return
        name = branch.queue.record.parent or ROOT
        parent = self.get(name)
        if parent is None:
            branch.fault = f"its parent {name} does not exist"
            return
        branch.parent = parent
        parent.children.append(branch)

    def _sum_up(self) -> None:
        """Amounts of inner branches from those of their children."""
        root = self[ROOT]
        for branch in reversed(list(_top_down(root))):
            children = branch.children
            if branch is root:
                branch.guarantee = _sum(self.width, [child.guarantee for child in children])
                branch.deserved = _sum(self.width, [child.deserved for child in children])
            else:
                branch.deserved = [max(pair) for pair in zip(branch.deserved, branch.guarantee, strict=True)]
            branch.held = _sum(self.width, [branch.held, *(child.held for child in children)])
            branch.members += tuple(name for child in children for name in child.members)


def _fit_shares(session: Session, branches: Branches, total: Amounts, promisable: Amounts) -> None:
    """Lower what leaves deserve of a resource of which queues want more of their shares than queues can have.

    Amounts are stated for the whole cluster. Where others hold a part of it, or nodes are away, every queue would count
    as one within its share, and none could take back what another has more of than its part. What queues deserve
    beyond the whole cluster stays in that proportion: it is how their administrator has stated it.
    """
    leaves = [branch for branch in branches.values() if branch.queue is not None and not branch.children]
    claims: Claims | None = None
    for row, whole in enumerate(listed(session.total, session.registry)):
        stated = sum(branch.deserved[row] for branch in leaves)
        most = total[row] * max(stated, whole) // max(whole, 1)
        if row == PODS or not whole or stated <= most:
            continue
        if claims is None:
            claims = claims_of(session, promisable, {branch.name: branch.admission for branch in leaves})
        shares = [
            Share(
                branch.deserved[row],
                min(claims.usable[branch.name][row], branch.deserved[row]),
                None,
                branch.guarantee[row],
            )
            for branch in leaves
        ]
        if sum(max(share.request, share.guarantee) for share in shares) <= most:
            continue
        for branch, part in zip(leaves, fill(most, shares), strict=True):
            branch.deserved[row] = part


def _find_fault(branch: Branch) -> None:
    """Follow the parents to the root: a missing one or a circle is a fault of everything below."""
    seen = {branch.name}
    above = branch
    while above.parent is not None:
        above = above.parent
        if above.name in seen:
            branch.fault = f"its parents form a circle at {above.name}"
            return
        seen.add(above.name)
    if above.name != ROOT and above is not branch:
        branch.fault = f"the parent of its ancestor {above.name} does not exist"


def _top_down(root: Branch) -> Iterator[Branch]:
    waiting = [root]
    while waiting:
        branch = waiting.pop()
        yield branch
        waiting.extend(branch.children)


def _divided(children: list[Branch], whole: Amounts) -> Iterator[tuple[str, Amounts]]:
    """For each child what the guarantees of its siblings leave of ``whole``, at most its own capability."""
    promised = _sum(len(whole), [child.guarantee for child in children])
    for child in children:
        rows = zip(whole, promised, child.guarantee, child.own, strict=True)
        yield child.name, [min(max(limit - others, 0) + own, cap) for limit, others, own, cap in rows]


def _sum(width: int, parts: list[Amounts]) -> Amounts:
    return [sum(row) for row in zip(*parts, strict=True)] if parts else [0] * width


# Quotas on devices that pods get through resource claims (dynamic resource allocation).
#
# A queue's capability may name ``deviceclass/CLASS``, the number of devices of a class, and ``DIM.deviceclass/CLASS``,
# an amount of one dimension that such devices share out. A claim that several pods of a queue use counts once. Claims
# for all devices of a node, or for the first available of several, are not counted: what they take is known only
# afterwards.

MARK = "deviceclass/"
Demand = Counter[str]
"""Amounts by quota name, in milli-units."""


class DeviceQuotas:
    """What queues hold and may hold of devices; empty, and without cost, where no queue limits any.

    Args:
        session: the session, at its opening.
        branches: the queues.
        consumable: whether amounts that devices share out are counted, too.
    """

    def __init__(self, session: Session, branches: Branches, *, consumable: bool) -> None:
        self.session = session
        self.branches = branches
        self.consumable = consumable
        self.limits: dict[str, dict[str, int]] = {}
        for name, branch in branches.items():
            capability = branch.queue.record.capability if branch.queue is not None else None
            limits = {key: amount for key, amount in (capability or {}).items() if self._counts(key)}
            if limits:
                self.limits[name] = limits
        self._users: dict[str, Counter[str]] = {name: Counter() for name in self.limits}
        self._held: dict[str, Demand] = {name: Counter() for name in self.limits}
        self._promised: Mapping[str, Demand] = {}
        if self.limits:
            self._promised = session.book.counted(self._queue, self._missing)
            self._count()

    def _counts(self, key: str) -> bool:
        return key.startswith(MARK) or (self.consumable and f".{MARK}" in key)

    def _count(self) -> None:
        """What runs."""
        for task in self.session.snapshot.tasks.values():
            if task.pod_class.devices and task.status in ALLOCATED_STATES and task.job:
                job = self.session.job(task.job)
                if job is not None:
                    self.use(self.branches[job.queue.name], task.pod_class.devices, 1)

    # ---- demands

    def _of(self, claims: Iterable[str]) -> Demand:
        total: Demand = Counter()
        for claim in claims:
            total.update(self._asked(claim))
        return total

    def _asked(self, claim: str) -> Demand:
        """What one claim asks for; nothing while it does not exist."""
        device_claim = self.session.snapshot.catalogue.device_claims.get(claim)
        asked: Demand = Counter()
        for request in (device_claim.spec.devices.requests or ()) if device_claim is not None else ():
            exact = request.exactly
            if exact is None or exact.allocation_mode == "All":
                continue
            number = 1 if exact.count is None else exact.count
            asked[f"{MARK}{exact.device_class_name}"] += 1000 * number
            shared = exact.capacity.requests if exact.capacity is not None else None
            for dimension, amount in (shared or {}).items():
                asked[f"{dimension}.{MARK}{exact.device_class_name}"] += to_milli(amount) * number
        return asked

    def _of_job(self, job: Job) -> Demand:
        """What the gang asks for: per role its minimum, else as many pods with claims as ``minMember``, by name."""
        tasks = sorted((task for task in job.tasks.values() if task.pod_class.devices), key=_by_name)
        total: Demand = Counter()
        for task, number in _members(job, tasks):
            for name, amount in self._of(task.pod_class.devices).items():
                total[name] += amount * number
        return total

    def _queue(self, job: Job) -> str | None:
        return job.queue if job.queue in self.branches else None

    def _missing(self, job: Job) -> Demand:
        """What an admitted job needs and does not hold yet."""
        demand = self._of_job(job)
        tasks = (task for task in job.tasks.values() if task.status in ALLOCATED_STATES) if demand else ()
        return demand - self._of({claim: None for task in tasks for claim in task.pod_class.devices})

    # ---- questions

    def over(self, branch: Branch, claims: Sequence[str]) -> tuple[Branch, str] | None:
        """The branch of the chain, and the quota in it, that claims which no pod there uses yet would exceed."""
        for one in branch.chain() if self.limits and claims else ():
            if one.name in self.limits:
                users = self._users[one.name]
                demand = self._of(claim for claim in claims if not users[claim])
                name = _first_over(self.limits[one.name], [self._held[one.name], demand], demand)
                if name:
                    return one, name
        return None

    def not_admitted(self, job: JobState) -> tuple[Branch, str] | None:
        """The same for all that a job needs, beside what has been promised."""
        demand = self._of_job(job.record) if self.limits else Counter()
        for branch in self.branches[job.queue.name].chain() if demand else ():
            if branch.name in self.limits:
                promised = [self._promised[name] for name in branch.members if name in self._promised]
                parts = [self._held[branch.name], *promised, demand]
                name = _first_over(self.limits[branch.name], parts, demand)
                if name:
                    return branch, name
        return None

    # ---- bookkeeping

    def use(self, branch: Branch, claims: Sequence[str], number: int) -> None:
        """``number`` more pods (or fewer) of a queue use these claims."""
        for one in branch.chain():
            if one.name not in self.limits:
                continue
            users, held = self._users[one.name], self._held[one.name]
            for claim in claims:
                before = users[claim] > 0
                users[claim] += number
                after = users[claim] > 0
                if before != after:
                    for name, amount in self._asked(claim).items():
                        held[name] += amount if after else -amount

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether pods of the class are to be looked at one by one."""
        return bool(self.limits) and bool(pod_class.devices)


def _by_name(task: Task) -> tuple[str, int, str]:
    return task.role, task.ordinal, task.name


def _members(job: Job, tasks: Sequence[Task]) -> Iterator[tuple[Task, int]]:
    if not job.min_task_member:
        yield from ((task, 1) for task in tasks[: job.min_member])
        return
    for role, number in job.min_task_member.items():
        first = next((task for task in tasks if task.role == role), None)
        if first is not None:
            yield first, number


def _first_over(limits: Mapping[str, int], parts: Sequence[Demand], wanted: Demand) -> str:
    """First name that is wanted and of which all parts together exceed the limit; ``""`` when none is."""
    for name, limit in limits.items():
        if wanted[name] > 0 and sum(part[name] for part in parts) > limit:
            return name
    return ""
