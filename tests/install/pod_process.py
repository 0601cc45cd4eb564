"""Runs ``unisono`` as a container would: ``python pod_process.py SERVICE_ACCOUNT_FOLDER ARGUMENTS...``.

A pod finds its service account at a fixed place, which several processes on one machine cannot share.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from unisono.cli.main import main
from unisono.kube import kubeconfig

if __name__ == "__main__":
    kubeconfig.in_cluster.__defaults__ = (os.environ, Path(sys.argv.pop(1)))
    sys.argv[0] = "unisono"
    sys.exit(main())
