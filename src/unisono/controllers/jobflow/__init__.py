"""Job flows of ``flow.volcano.sh``: jobs that are made from templates as their dependencies allow."""
