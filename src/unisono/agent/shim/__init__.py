"""Runs one container and outlives the agent: sets up its namespaces, writes its log, keeps its exit code.

Forked from the spawner (``agent/spawner/``), or started as ``python -I -S .../shim/__main__.py SPEC``: modules of this
package import the standard library and each other, nothing else. One process tree per container::

    shim (session leader; pumps the log, forwards SIGTERM, writes the exit file)
      └── init (process 1 of the container's PID namespace: reaps, passes the exit status on)
            └── the container's command (leader of its own session)

The spec is a ``marshal`` dict (see ``agent/processes/launch.py``, which writes it). Files in the run's directory:
``started``, ``exit`` and ``log``, the first two as ``key=value`` lines written under a temporary name and renamed.

Signals to the shim: SIGTERM asks the command to end, SIGUSR1 ends it at once.

Modes: ``SPEC`` as above, ``--probe DIR`` tries the namespaces out and prints what this machine allows. ``enter`` runs
a command inside a running container (exec probes, ``kubectl exec``).
"""
