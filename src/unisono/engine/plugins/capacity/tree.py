"""What each queue may hold and deserves under the capacity plug-in, flat or as a tree.

Every queue is a branch. In flat mode each stands alone; in hierarchical mode branches hang below ``root``, an inner one
holds what its descendants hold, and a limit of an ancestor holds for all of them. A queue whose place in the tree makes
no sense carries a fault, and so do those below it; all others go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unisono.cluster.resources import PODS
from unisono.engine.plugins.proportion.division import Share, fill, requests_of
from unisono.engine.session.amounts import UNLIMITED, Amounts, by_row, dominant_share, listed

if TYPE_CHECKING:
    from unisono.engine.session.job_state import QueueState
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
        "admission",
        "ceiling",
        "children",
        "deserved",
        "fault",
        "guarantee",
        "held",
        "members",
        "name",
        "own",
        "parent",
        "queue",
    )

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
        self.width = len(registry)
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
            self._grow(total)
        else:  # each queue beside the guarantees of all others
            _divide(list(self.values()), promisable, "admission")
            _divide(list(self.values()), total, "ceiling")
        _fit_shares(session, self, total, promisable)
        if hierarchical:
            self._sum_up()
            return
        for branch in self.values():
            parts = zip(branch.deserved, branch.ceiling, branch.guarantee, strict=True)
            branch.deserved = [max(min(share, limit), own) for share, limit, own in parts]

    # ---- the tree

    def _grow(self, total: Amounts) -> None:
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
        root.ceiling = [min(limit, whole) for limit, whole in zip(root.own, total, strict=True)]
        for branch in _top_down(root):
            _divide(branch.children, branch.admission, "admission")
            _divide(branch.children, branch.ceiling, "ceiling")

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
    requests: dict[str, Amounts] = {}
    for row, whole in enumerate(listed(session.total, session.registry)):
        stated = sum(branch.deserved[row] for branch in leaves)
        most = total[row] * max(stated, whole) // max(whole, 1)
        if row == PODS or not whole or stated <= most:
            continue
        if not requests:
            requests = requests_of(session, promisable, {branch.name: branch.admission for branch in leaves})
        shares = [
            Share(
                branch.deserved[row], min(requests[branch.name][row], branch.deserved[row]), None, branch.guarantee[row]
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


def _divide(children: list[Branch], whole: Amounts, attribute: str) -> None:
    """Give each child what the guarantees of its siblings leave of ``whole``, at most its own capability."""
    promised = _sum(len(whole), [child.guarantee for child in children])
    for child in children:
        rows = zip(whole, promised, child.guarantee, child.own, strict=True)
        setattr(child, attribute, [min(max(limit - others, 0) + own, cap) for limit, others, own, cap in rows])


def _sum(width: int, parts: list[Amounts]) -> Amounts:
    return [sum(row) for row in zip(*parts, strict=True)] if parts else [0] * width
