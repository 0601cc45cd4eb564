"""Pairs and triples of features on live control planes: no two of them may break what each promises alone."""
