"""The cases: which input, which parameters, and why it is worth asking. Values come from the definitions alone."""

import math

CASES = []
LAWS = []


def case(metric, why, given, **parameters):
    """One vector: a metric, its input and parameters, and what a wrong implementation would get wrong here."""
    CASES.append({"metric": metric, "input": given, "parameters": parameters, "why": why})


def law(metric, name, relation, before, after, **parameters):
    """A law: how the value moves when the input changes; it holds whatever convention a tool follows."""
    LAWS.append(
        {
            "metric": metric,
            "law": name,
            "relation": relation,
            "before": before,
            "after": after,
            "parameters": parameters,
        }
    )


RELATIONS = {
    "equal": "the value stays",
    "falls": "the value falls",
    "falls_or_stays": "the value does not rise",
    "rises_or_stays": "the value does not fall",
    "negates": "the value changes its sign",
    "inverts": "the value becomes its reciprocal",
}
INFINITE = math.inf
