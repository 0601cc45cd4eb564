"""JobSet: groups of Jobs that start, restart and end together; their pods are made here, without Jobs in between."""
