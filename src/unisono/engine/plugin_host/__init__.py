"""Asks plug-ins: in which order, behind which guard, within which time, and how their answers combine."""
