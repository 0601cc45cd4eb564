"""Transcripts of kubectl: what it asks a server and what the server answers, recorded and compared."""
