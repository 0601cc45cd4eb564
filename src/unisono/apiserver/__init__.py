"""The embedded Kubernetes API: store, REST, watch, patches, tables, admission, garbage collector."""
