"""The embeddings ledger: vectors, which can be made again."""
