"""Anything in, a relation with known columns out: opening tables, checking roles, and the engine that runs queries."""
