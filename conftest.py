"""Adapters import their hosts: their modules are looked at in `make hosts`, where each host has its own environment. Those of
the conformance kit import the tools that they score, in environments of their own too (`make conformance`).
"""

collect_ignore_glob = ["src/evenhand/adapters/*", "src/evenhand/conformance/tools/*"]
