"""``unisono jobflow``: job flows with ``vcctl``'s verbs and flags."""

from __future__ import annotations

from unisono.cli.vcctl.flows import flow_group

command = flow_group("jobflow")
