"""What each kind of job means, from its object alone: its pods, its gang, its queue, its size, its end (pure).

A kind is a table of paths and a few functions, in the module of its family; ``registry`` finds it.
"""
