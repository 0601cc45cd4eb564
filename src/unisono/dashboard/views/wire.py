"""The views as they go to the page; its TypeScript types are generated from these structs.

Nothing is ever null, because differences are JSON merge patches: an empty text, 0 or an empty list stands for nothing.
Times are seconds since 1970.
"""

from __future__ import annotations

import msgspec

from unisono.dashboard.views.why import Choice, EventRow, ExplanationView, Fact


class Wire(msgspec.Struct, rename="camel", kw_only=True):
    """Base of all views."""


class JobRow(Wire):
    """One line of the table of jobs.

    Attributes:
        key: ``jobs.batch.volcano.sh/default/train``.
        api_version, kind, namespace, name: of the object.
        queue: of its first PodGroup.
        priority: name of its priority class.
        phase: in a job's words: ``Pending``, ``Running``, ``Completed``, ...
        state: ``waiting``, ``running``, ``suspended``, ``succeeded`` or ``failed``.
        gang: pods that start together.
        placed: pods that have a node.
        running: pods that run.
        pods: pods that it wants.
        cards: GPUs that its pods ask for together; 0 for none.
        held, held_cpus: GPUs and CPUs of its pods that have a node and have not ended.
        user: who submitted it, where that is known.
        created: when the object was created.
        started: when its last pod got a node; 0 while its gang waits, or nothing says it.
        ends: when it ends by what is stated of its run time; 0 where nothing is.
        ended: when its last pod ended; 0 before.
        waiting: why it waits, one line.
        cause: of the verdict.
        progress: ``30/100``, where the job tells it.
        message: what the job says of its phase.
    """

    key: str
    api_version: str
    kind: str
    namespace: str
    name: str
    queue: str = ""
    priority: str = ""
    phase: str = ""
    state: str = "waiting"
    gang: int = 0
    placed: int = 0
    running: int = 0
    pods: int = 0
    cards: float = 0.0
    held: float = 0.0
    held_cpus: float = 0.0
    user: str = ""
    created: float = 0.0
    started: float = 0.0
    ends: float = 0.0
    ended: float = 0.0
    waiting: str = ""
    cause: str = ""
    progress: str = ""
    message: str = ""


class JobsView(Wire):
    """A window of the table of jobs.

    Attributes:
        ready: everything was listed once.
        total: jobs that the viewer may see.
        matched: of these, how many the filters let through.
        offset: number of the first row of ``order``.
        order: keys of the rows of the window.
        rows: by key.
        states, queues, namespaces, kinds, causes, users: what there is to filter by.
    """

    ready: bool = False
    total: int = 0
    matched: int = 0
    offset: int = 0
    order: list[str] = []
    rows: dict[str, JobRow] = {}
    states: list[Choice] = []
    queues: list[Choice] = []
    namespaces: list[Choice] = []
    kinds: list[Choice] = []
    causes: list[Choice] = []
    users: list[Choice] = []


class PodRow(Wire):
    """One pod of a job.

    Attributes:
        name, task, phase, node: of the pod.
        created, scheduled, started, finished: its life; 0 for what has not happened.
        ends: when it ends by what is stated of its run time; 0 where nothing is.
        restarts: of its containers.
        ending: ``exit code 1 (Error)`` where it has ended, or why its containers wait.
        containers: names.
        requests: ``1 GPU, 4 CPUs``.
        usage: measured use of it, as ``3.9 CPUs, 2.1 GiB``; empty where nothing is measured.
    """

    name: str
    task: str = ""
    phase: str = ""
    node: str = ""
    created: float = 0.0
    scheduled: float = 0.0
    started: float = 0.0
    finished: float = 0.0
    ends: float = 0.0
    restarts: int = 0
    ending: str = ""
    containers: list[str] = []
    requests: str = ""
    usage: str = ""


class JobView(Wire):
    """The page of one job.

    Attributes:
        ready: everything was listed once.
        found: there is such a job, and the viewer may see it.
        row: as in the table.
        pods: by name; at most some hundreds.
        order: names of the pods.
        pod_total: all of them.
        phases: how many pods are in which phase.
        explanation: why it waits.
        events: the newest first.
        actions: what the viewer may do with it: ``suspend``, ``resume``, ``cancel``, ``delete``.
        admitted: when its gang was admitted or last changed its condition; 0 where nothing says it.
    """

    ready: bool = False
    found: bool = False
    row: JobRow = msgspec.field(default_factory=lambda: JobRow(key="", api_version="", kind="", namespace="", name=""))
    pods: dict[str, PodRow] = {}
    order: list[str] = []
    pod_total: int = 0
    phases: list[Choice] = []
    explanation: ExplanationView = msgspec.field(default_factory=ExplanationView)
    events: list[EventRow] = []
    actions: list[str] = []
    admitted: float = 0.0


class ComponentView(Wire):
    """A part of the control plane; ``problem`` is empty where it is alive."""

    name: str
    problem: str = ""
    note: str = ""


class ResourceView(Wire):
    """One resource of all nodes that take pods; ``share`` is used of total.

    Attributes:
        name: ``nvidia.com/gpu``.
        model: of these devices alone, as labels of nodes name it; empty for all.
        used, total, largest: quantities for people; the last is the most that is free on one node.
        share: 0 to 1.
        holes: of a device, how many nodes have so many free.
    """

    name: str
    used: str
    total: str
    model: str = ""
    largest: str = ""
    share: float = 0.0
    holes: list[Choice] = []


class WaitingGroup(Wire):
    """Jobs that wait for the same cause in the same queue, with the line of one of them."""

    key: str
    cause: str
    queue: str
    jobs: int
    pods: int
    example: JobRow
    line: str
    since: float


class UserLine(Wire):
    """What one user holds and waits for; an empty name stands for jobs of which no user is known.

    Attributes:
        user: name.
        running, waiting: jobs.
        held, held_cpus: GPUs and CPUs of pods that have a node.
        wanted: GPUs of jobs that wait.
        share: of all that is held, of GPUs where any are; 0 to 1.
    """

    user: str
    running: int = 0
    waiting: int = 0
    held: float = 0.0
    held_cpus: float = 0.0
    wanted: float = 0.0
    share: float = 0.0


class IdleLine(Wire):
    """A job that holds GPUs and does nothing, and since when."""

    row: JobRow
    since: float


class BookingLine(Wire):
    """What the calendar has for now, or for the next day.

    Attributes:
        title: ``reservation/night``.
        holds: now; else it comes.
        start: of the window, and its ``end``, seconds since 1970.
        text: whose it is, and of what.
    """

    title: str
    holds: bool
    start: float
    end: float
    text: str


class BudgetRow(Wire):
    """One amount of a budget, as `unisono.sdk.overview.queues.BudgetLine` says it.

    Attributes:
        key: of the budget and the amount.
        state: ``fine``, ``near`` where a warning of it is due or it ends within its period, ``over`` or ``invalid``.
        exhausted: when it is used up if it goes on like this, seconds since 1970; 0 where it lasts or is used up.
        end: of its period; 0 without one.

    """

    key: str
    name: str
    mode: str
    state: str
    whose: str = ""
    unit: str = ""
    amount: str = ""
    used: str = ""
    left: str = ""
    rate: str = ""
    part: float = 0.0
    exhausted: float = 0.0
    end: float = 0.0


class OverviewView(Wire):
    """The cluster at a glance.

    Attributes:
        budgets: those that are used up or nearest to their end first.
        calendar: Reservations and TemporaryQuotas that hold or begin within a day.
        mine: the viewer's own jobs that matter most now; as many as fit, of ``mine_states``.
        users: who holds most.
        holders: jobs that hold most.
        idle: jobs that hold GPUs and have done nothing for a while, by what is measured of their pods.
    """

    ready: bool = False
    mine: list[JobRow] = []
    mine_states: list[Choice] = []
    users: list[UserLine] = []
    holders: list[JobRow] = []
    idle: list[IdleLine] = []
    calendar: list[BookingLine] = []
    budgets: list[BudgetRow] = []
    components: list[ComponentView] = []
    resources: list[ResourceView] = []
    groups: list[WaitingGroup] = []
    nodes_ready: int = 0
    nodes_down: list[str] = []
    nodes_cordoned: list[str] = []
    nodes_quarantined: list[str] = []
    states: list[Choice] = []
    hidden: list[str] = []


class Share(Wire):
    """One resource of a queue, in quantities for people and as parts of the largest of them (0 to 1).

    ``total`` is what the cluster has.
    """

    name: str
    used: str = ""
    total: str = ""
    deserved: str = ""
    guarantee: str = ""
    capability: str = ""
    used_part: float = 0.0
    deserved_part: float = 0.0
    guarantee_part: float = 0.0
    capability_part: float = 0.0


class QueueLine(Wire):
    """A queue and the jobs that wait in it, in the order in which they would be served where verdicts tell it."""

    name: str
    parent: str = ""
    depth: int = 0
    state: str = ""
    weight: int = 1
    reclaimable: bool = True
    waiting: int = 0
    running: int = 0
    shares: list[Share] = []
    line: list[str] = []
    spec: str = ""
    editable: bool = False


class QueuesView(Wire):
    """All queues, each below its parent."""

    ready: bool = False
    order: list[str] = []
    rows: dict[str, QueueLine] = {}


class Held(Wire):
    """What a job holds of a node: an amount for people, and whole or part cards.

    Attributes:
        job: ``namespace/name``.
        amount: for people.
        cards: whole or part cards.
        user: of the job.
        since: when the job began; 0 where that is not known.
        ends: when it ends by what is stated; 0 where nothing is.
        idle: since when its pods with cards have done nothing; 0 where they work, or nothing is measured.
    """

    job: str
    amount: str
    cards: float = 0.0
    user: str = ""
    since: float = 0.0
    ends: float = 0.0
    idle: float = 0.0


class NodeCell(Wire):
    """One node of the map.

    Attributes:
        name: of the node.
        state: ``idle``, ``mix``, ``alloc``, ``drain`` or ``down``.
        cordoned: it is, so that it can be uncordoned.
        quarantine: by what it is in quarantine, and why; empty where it is not.
        cpus, memory, devices: ``4 of 16``: requested and allocatable.
        model: of its devices.
        cards, cards_used: devices.
        share: of its devices, or else of its cores, that are used; 0 to 1.
        pods: how many it has.
        use: measured mean use of its cards, 0 to 1; below 0 where nothing measures it.
        path: the HyperNodes above it, the uppermost first.
        held: who holds what, the largest first.
    """

    name: str
    state: str = ""
    cordoned: bool = False
    quarantine: str = ""
    cpus: str = ""
    memory: str = ""
    devices: str = ""
    model: str = ""
    cards: float = 0.0
    cards_used: float = 0.0
    share: float = 0.0
    pods: int = 0
    use: float = -1.0
    path: list[str] = []
    held: list[Held] = []


class NodesView(Wire):
    """A window of the nodes, sorted by their place in the topology.

    Attributes:
        states, models: to filter by.
        free: by a number of cards, how many nodes that take pods have so many free or more.
    """

    ready: bool = False
    total: int = 0
    matched: int = 0
    offset: int = 0
    order: list[str] = []
    rows: dict[str, NodeCell] = {}
    states: list[Choice] = []
    models: list[Choice] = []
    free: list[Choice] = []
    cordons: bool = False


class MemberRow(Wire):
    """A cluster of a fleet.

    Attributes:
        name, namespace: of the AttachedCluster.
        ready: it takes work.
        message: what the hub says of it.
        version: of its API server.
        region: where it is.
        nodes: that are ready.
        jobs: that the hub has placed there and that have not ended.
        resources: of its nodes.
        lost: since when it has not answered; 0 where it does.
    """

    name: str
    namespace: str
    ready: bool = False
    message: str = ""
    version: str = ""
    region: str = ""
    nodes: int = 0
    jobs: int = 0
    resources: list[ResourceView] = []
    lost: float = 0.0


class FleetView(Wire):
    """The clusters of a fleet, and jobs of the hub that are in none of them."""

    ready: bool = False
    order: list[str] = []
    rows: dict[str, MemberRow] = {}
    waiting: int = 0


class Timing(Wire):
    """How long a part of the scheduler's cycles takes: ``cycle``, ``action`` or ``plug-in``.

    ``mean`` is in milliseconds, as is ``most``: 99 of 100 take no longer, 0 where no histogram tells it.
    """

    kind: str
    name: str
    count: int
    mean: float
    most: float = 0.0


class SchedulerView(Wire):
    """Whether schedulers are alive, what they say of their configuration, and how long their cycles take.

    ``metrics`` says whether the scheduler's metrics could be read; ``violations`` counts decisions that were dropped,
    since each broke an invariant; ``hidden`` names kinds that the viewer may not see.
    """

    ready: bool = False
    components: list[ComponentView] = []
    facts: list[Fact] = []
    times: list[Timing] = []
    metrics: bool = False
    violations: int = 0
    configuration: str = ""
    hidden: list[str] = []


class Who(Wire):
    """The signed-in user, and what is needed for further requests."""

    user: str
    key: str = ""
    namespaces: list[str] = []
    fleet: bool = False
    server: str = ""


class Refused(Wire):
    """Why a request was not answered."""

    error: str
    code: int


class Done(Wire):
    """What an action did."""

    message: str


class LogLine(Wire):
    """One line of a log."""

    pod: str
    task: str
    text: str


class Moved(Wire):
    """A waiting job without and with a change; seconds from now, below 0 for not before the end.

    Attributes:
        job: PodGroup, ``namespace/name``.
        name: of its job, ``namespace/name``.
        queue: where it is.
        before, after: half of the futures start it by then.
        low, high: bounds of 80 % of the futures with the change.
        known: its run time is stated or was learnt.
    """

    job: str
    name: str
    queue: str
    before: float
    after: float
    low: float
    high: float
    known: bool


class ConfigurationView(Wire):
    """The scheduler's configuration.

    Attributes:
        text: of it.
        name: where it stands, in words.
        known: it is the one in force; else the viewer may not read that.
    """

    text: str
    name: str
    known: bool = True


class Futures(Wire):
    """What a change would do, in possible futures of the cluster.

    Attributes:
        told: what was changed.
        configuration: which one both sides begin with, in words.
        futures: how many were simulated.
        until: seconds after which each ends.
        moved: jobs that wait, those first that are moved most.
        evicted: jobs that run and would be evicted more often.
        source: what kind of futures they are, in words.
    """

    told: list[str]
    configuration: str
    futures: int
    until: float
    moved: list[Moved]
    evicted: list[str]
    source: str
