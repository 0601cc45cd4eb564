"""Resource claims (dynamic resource allocation): claims made for pods, and who may use them."""
