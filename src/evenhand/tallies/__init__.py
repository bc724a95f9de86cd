"""What metrics may see: frozen dataclasses of small arrays, made by the engine's group-bys or from plain arrays."""
