"""Structs on the wire, one module per API group or family of kinds; the core group has a package of its own."""
