"""The reranker of Nexus: read as a file, never imported."""
