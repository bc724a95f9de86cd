"""evenhand inside other people's tools: one module per host, each importable only where its host is installed."""
