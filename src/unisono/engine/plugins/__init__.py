"""Plug-ins: one policy per file, registered by Volcano's name."""
