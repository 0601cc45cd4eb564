"""Jobs of ``batch.volcano.sh``: a pure decision over observed objects, and a reconciler that carries it out."""
