"""The limit on open files: raised here, given back to children."""

from __future__ import annotations

import subprocess
import sys

_CHILD = """
import resource, subprocess, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, min(hard, 256)))
from unisono.kube.listening import give_back, open_files, raise_open_files
print(open_files(), raise_open_files())
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
give_back(child.pid)
print(*resource.prlimit(child.pid, resource.RLIMIT_NOFILE))
child.communicate()
give_back(child.pid)
"""


def test_children_have_the_limit_that_the_server_was_started_with() -> None:
    done = subprocess.run([sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["64", "256", "64", "256"]
