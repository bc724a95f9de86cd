"""Does an implementation compute what the definitions say? Golden vectors and laws, and the score of any tool.

`vectors.json` is plain data under CC0, made by `conformance/` of the repository, which does not import this package.
"""
