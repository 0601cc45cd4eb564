"""Core Kubernetes kinds: every struct of the package under one roof."""

from unisono.api.core.cluster import *
from unisono.api.core.container import *
from unisono.api.core.crd import *
from unisono.api.core.devices import *
from unisono.api.core.persistent_volume import *
from unisono.api.core.pod import *
from unisono.api.core.refs import *
from unisono.api.core.service import *
from unisono.api.core.volume import *
