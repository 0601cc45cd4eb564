"""Built-in plug-ins: one policy per module or package, registered by Volcano's name."""
