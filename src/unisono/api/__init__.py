"""Objects on the wire: structs per API group, quantities, defaulting, validation and CRD manifests."""
