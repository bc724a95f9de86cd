"""Trading relevance for even exposure: the frontier, and re-rankers."""
