"""service-order: which job comes first by how long it has run, or has still to run; the last ones make room."""
