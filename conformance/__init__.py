"""The conformance kit's own side: slow definitions, the cases, and the generator of the vectors. It never imports evenhand."""
