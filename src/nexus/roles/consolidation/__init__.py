"""Consolidation: facts become observations, in batches that a model reads and the server checks."""
