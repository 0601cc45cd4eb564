"""Bounds that no scheduler can beat, to say how much room is left."""
