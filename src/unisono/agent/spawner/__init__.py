"""A small process that starts all others for the agent, so that the agent never waits for a start.

The process that serves the API is large: to start another from it, the kernel stops it until the new one has begun,
which on a busy machine takes long. This one is asked over a socket pair instead, forks itself, and goes on in the child
as a shim (``agent/shim/``) whose modules are loaded already: no interpreter starts, nothing is imported again.

::

    agent ── socket pair ── spawner
                              ├── shim of a container     (outlives the spawner, and the agent)
                              └── --enter: a command in a running container

It ends when the agent does. When it is killed, the agent starts another one; nothing that runs depends on it.
"""
