"""Words of servers, kubelets and controllers, most of them Kubernetes' own: what is read out of their messages.

Patterns on messages stand here and nowhere else in what explains jobs. Messages are cut to `LONGEST` before they are
searched: anybody who may write an object may write very long ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

LONGEST = 4000
MEANT = re.compile(r"did you mean ([^?\s]+)\?")
MEANT_NEXT = re.compile(r" \(did you mean ([^?\s]+)\?\)")

# ---- names that nothing has

ACCOUNT = re.compile(r'serviceaccount "([^"]+)" not found', re.IGNORECASE)
PRIORITY_CLASS = re.compile(r"no PriorityClass with name (\S+) was found")
RUNTIME_CLASS = re.compile(r'RuntimeClass "([^"]+)" not found')
CONFIG_MAP = re.compile(r'configmap "([^"]+)" not found')
SECRET = re.compile(r'secret "([^"]+)" not found')
CLAIM = re.compile(r"pvc (\S+) is not found")
CLUSTER_RUNTIME = re.compile(r"ClusterTrainingRuntime (\S+) does not exist")
RUNTIME = re.compile(r"(?<!Cluster)TrainingRuntime (\S+) does not exist")
JOB_TEMPLATE = re.compile(r"job template \S+/(\S+) is not there")
UNMADE_CLAIM = re.compile(r"from ResourceClaimTemplate ([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")
KEY_OF_VARIABLE = re.compile(r"couldn't find key (\S+) in (ConfigMap|Secret) \"?(?:[^\s/\"]+/)?([^\s/\"]+)\"?")
KEY_OF_FILE = re.compile(r'(configmap|secret) "([^"]+)" references non-existent key: (\S+)')

# ---- the same, with the name that was meant behind them

QUEUE_OR_MEANT = re.compile(
    r'queue\.scheduling\.volcano\.sh "([^"]+)" not found(?:.*?did you mean ([^?\s]+)\?)?', re.DOTALL
)
RUNTIME_MEANT = re.compile(r"TrainingRuntime (\S+) does not exist.*?did you mean ([^?\s]+)\?", re.DOTALL)
JOB_TEMPLATE_MEANT = re.compile(r"job template \S+/(\S+) is not there.*?did you mean ([^?\s]+)\?", re.DOTALL)
CLAIM_OR_MEANT = re.compile(r"pvc (\S+)(?: \(did you mean [^)]*\))? is not found(?: \(did you mean ([^?\s]+)\?\))?")
CLAIM_TEMPLATE_MEANT = re.compile(r"ResourceClaimTemplate (\S+), which does not exist \(did you mean ([^?\s]+)\?")
FILES_MEANT = re.compile(r'(configmap|secret) "([^"]+)" not found \(did you mean ([^?\s]+)\?')

# ---- limits

QUOTA = re.compile(r"exceeded quota: ([^,\s]+), requested: (\S+), used: (\S+), limited: (\S+)")
OVER_QUOTA = re.compile(r'\b([a-z]+) "[^"]*" is forbidden: exceeded quota')
ABOVE_LIMIT = re.compile(r"must be less than or equal to (\S+) limit of ([^,;\s\]]+)")
"""A container requests more than its limit, which a LimitRange may have set."""
MOST = re.compile(r"maximum (\S+) usage per (Container|Pod) is ([^,\s]+)(?:, but (limit) is)?")
"""The limit that exceeds it may be one that a LimitRange has set."""
LEAST = re.compile(r"minimum (\S+) usage per (Container|Pod) is ([^,\s]+)")
REQUESTED = re.compile(r"minimum (\S+) usage per (Container|Pod) is ([^,\s]+), but request is ([^,;\s\]]+)")
RATIO = re.compile(r"(\S+) max limit to request ratio per (?:Container|Pod) is ([\d.]+), but")
UNSTATED = re.compile(r"must specify ((?:limits|requests)\.[\w./-]+(?:[,;] ?(?:limits|requests)\.[\w./-]+)*)")
UNLIMITED = "Limit must be set for non overcommitable resources"

# ---- what happens on nodes

PROBE = re.compile(r"((?:Liveness|Startup) probe failed(?:: .*)?)")


_KINDS = {"configmap": "ConfigMap", "secret": "Secret"}  # nosec B105 # the name of a kind


@dataclass(frozen=True, slots=True)
class MissingKey:
    """A key that a pod asks for and its ConfigMap or Secret does not have.

    Attributes:
        kind: ``ConfigMap`` or ``Secret``.
        name: of the object.
        key: that it lacks.
        end: where the message has said so.
        meant: the key that was probably meant, where the message says it.

    """

    kind: str
    name: str
    key: str
    end: int
    meant: str = ""


def missing_key(message: str) -> MissingKey | None:
    """What a message of a node misses, None where it speaks of something else."""
    text = message[:LONGEST]
    if found := KEY_OF_VARIABLE.search(text):
        key, kind, name = found.groups()
    elif found := KEY_OF_FILE.search(text):
        word, name, key = found.groups()
        kind = _KINDS[word]
    else:
        return None
    near = MEANT_NEXT.match(text, found.end())
    return MissingKey(kind, name, key, found.end(), near[1] if near else "")
