"""From the objects of another scheduler to queues, rules and access of this one (pure).

``kueue``, ``kai``, ``yunikorn`` and ``volcano`` each read one project's objects; `written` holds what comes of them.
"""
