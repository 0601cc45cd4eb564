"""Stored bytes, structs and versions: decoding objects, and kinds that are served as another one."""
