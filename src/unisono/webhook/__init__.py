"""The admission webhook: defaults and rules of ``api`` and ``apiserver.admission`` for any API server."""
