"""Functions as jobs: shipped to the pods of a gang, run there, and their results read back."""
