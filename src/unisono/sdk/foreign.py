"""Words of servers, kubelets and controllers, most of them Kubernetes' own: what is read out of their messages.

Patterns on messages stand here and nowhere else in what explains jobs. Messages are cut to `LONGEST` before they are
searched: anybody who may write an object may write very long ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from unisono.api.messages import MISSING_QUEUE

LONGEST = 4000
_MEANT_NEXT = re.compile(r" \(did you mean ([^?\s]+)\?\)")

# ---- names that nothing has

UNMADE_CLAIM = re.compile(r"from ResourceClaimTemplate ([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")
_KEY_OF_VARIABLE = re.compile(r"couldn't find key (\S+) in (ConfigMap|Secret) \"?(?:[^\s/\"]+/)?([^\s/\"]+)\"?")
_KEY_OF_FILE = re.compile(r'(configmap|secret) "([^"]+)" references non-existent key: (\S+)')
_MISSING = (
    ("ServiceAccount", re.compile(r'serviceaccount "(?:[^"/]+/)?([^"]+)" not found', re.IGNORECASE)),
    ("PriorityClass", re.compile(r"no PriorityClass with name (\S+) was found")),
    ("RuntimeClass", re.compile(r'RuntimeClass "([^"]+)" not found')),
    ("Queue", MISSING_QUEUE),
    ("ConfigMap", re.compile(r'configmap "([^"]+)" not found')),
    ("Secret", re.compile(r'secret "([^"]+)" not found')),
    ("PersistentVolumeClaim", re.compile(r"pvc (\S+) is not found")),
    ("ClusterTrainingRuntime", re.compile(r"ClusterTrainingRuntime (\S+) does not exist")),
    ("TrainingRuntime", re.compile(r"(?<!Cluster)TrainingRuntime (\S+) does not exist")),
    ("JobTemplate", re.compile(r"job template \S+/(\S+) is not there")),
    ("ResourceClaimTemplate", re.compile(r"ResourceClaimTemplate (\S+), which does not exist")),
)
"""How it is said of each kind that there is none of a name."""

# ---- limits

QUOTA = re.compile(r"exceeded quota: ([^,\s]+), requested: (\S+), used: (\S+), limited: (\S+)")
OVER_QUOTA = re.compile(r'\b([a-z]+) "[^"]*" is forbidden: exceeded quota')
ABOVE_LIMIT = re.compile(r"must be less than or equal to (\S+) limit of ([^,;\s\]]+)")
"""A container requests more than its limit, which a LimitRange may have set."""
MOST = re.compile(r"maximum (\S+) usage per (Container|Pod) is ([^,\s]+)(?:, but (limit) is)?")
"""The limit that exceeds it may be one that a LimitRange has set."""
LEAST = re.compile(r"minimum (\S+) usage per (Container|Pod) is ([^,\s]+)")
REQUESTED = re.compile(r"minimum (\S+) usage per (Container|Pod) is ([^,\s]+), but request is ([^,;\s\]]+)")
CLAIM_SIZE = re.compile(r"(minimum|maximum) storage usage per PersistentVolumeClaim is ([^,;\s\]]+)")
RATIO = re.compile(r"(\S+) max limit to request ratio per (?:Container|Pod) is ([\d.]+), but")
UNSTATED = re.compile(r"must specify ((?:limits|requests)\.[\w./-]+(?:[,;] ?(?:limits|requests)\.[\w./-]+)*)")
UNLIMITED = "Limit must be set for non overcommitable resources"

# ---- what happens on nodes

PROBE = re.compile(r"((?:Liveness|Startup) probe failed(?:: .*)?)")

_KINDS = {"configmap": "ConfigMap", "secret": "Secret"}  # nosec B105 # the name of a kind


@dataclass(frozen=True, slots=True)
class Missing:
    """What a message misses.

    Attributes:
        kind: such as ``ConfigMap``.
        name: of the object.
        key: that the object lacks, where it is there and has not all that is asked of it.
        end: where the message has said so.
        meant: the name or key that was probably meant, where the message says it behind that.
    """

    kind: str
    name: str
    end: int
    meant: str = ""
    key: str = ""


def missing_name(message: str) -> Missing | None:
    """The object that a message says does not exist; None where it speaks of something else."""
    text = message[:LONGEST]
    for kind, pattern in _MISSING:
        if matched := pattern.search(text):
            near = _MEANT_NEXT.match(text, matched.end())
            return Missing(kind, matched[1], matched.end(), near[1] if near else "")
    return None


def missing_key(message: str) -> Missing | None:
    """The key that a node misses in a ConfigMap or Secret; None where a message speaks of something else."""
    text = message[:LONGEST]
    if matched := _KEY_OF_VARIABLE.search(text):
        key, kind, name = matched.groups()
    elif matched := _KEY_OF_FILE.search(text):
        word, name, key = matched.groups()
        kind = _KINDS[word]
    else:
        return None
    near = _MEANT_NEXT.match(text, matched.end())
    return Missing(kind, name, matched.end(), near[1] if near else "", key)
