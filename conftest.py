"""Adapters import their hosts: their modules are looked at in `make hosts`, where each host has its own environment."""

collect_ignore_glob = ["src/evenhand/adapters/*"]
