"""Applications: objects that are brought to every cluster of a fleet, and kept there."""
