"""The HTTP surface: from the request line to the answer, and the documents that clients ask for."""
