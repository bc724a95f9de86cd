"""Write the pages of metrics from the cards, the schema of plans from the register, and the bundle of Vega: python docs/generate.py"""

from __future__ import annotations

import doctest
import gzip
import inspect
import math
import re
import tomllib
import warnings
from pathlib import Path

import vl_convert

from evenhand import metrics  # noqa: F401  (fills the registry)
from evenhand.cards import REGISTRY, Metric
from evenhand.cli.plan import schema_text as plan_schema
from evenhand.errors import UndefinedWarning
from evenhand.metrics.conventions import compare
from evenhand.report.pages import ASSETS, VEGA_LITE
from evenhand.report.words.text import number

DOCS = Path(__file__).parent
CITED = tomllib.loads((DOCS / "references.toml").read_text(encoding="utf-8"))

FAMILIES = {
    "Spectrum": ("Inequality of an amount over units", "`eh.inequality`"),
    "Placement": ("Prefixes of one ranking, and attention on it", "`eh.prefix`, `eh.exposure`"),
    "Exposed": ("Prefixes of one ranking, and attention on it", "`eh.prefix`, `eh.exposure`"),
    "Represented": ("Prefixes of one ranking, and attention on it", "`eh.prefix`, `eh.exposure`"),
    "Exposure": ("Exposure over many rankings", "`eh.exposure`"),
    "Amortised": ("Exposure over many rankings", "`eh.exposure`"),
    "Pairs": ("Pairs of items", "`eh.pairwise`"),
    "Moments": ("The outcome test", "`eh.outcome_test`"),
    "Rows": ("The outcome test", "`eh.outcome_test`"),
    "Neighbours": ("The outcome test", "`eh.outcome_test`"),
    "ScoredGroups": ("The outcome test", "`eh.outcome_test`"),
    "Change": ("What would change without the bias", "`result.counterfactual()`"),
    "Gained": ("Another order of the same items", "`eh.rebalance`"),
    "Judged": ("Another order of the same items", "`eh.rebalance`"),
    "Reordered": ("Another order of the same items", "`eh.rebalance`"),
    "Crosstab": ("Recommenders: groups of users, and items", "`eh.recommender`"),
    "Lists": ("Recommenders: groups of users, and items", "`eh.recommender`"),
    "Qualifications": ("The outcome test", "`eh.outcome_test`"),
    "Selections": ("Selection rates", "`eh.impact`"),
}
BETTER = {"lower": "lower is more even", "higher": "higher is more even", "ideal": "closer to the ideal is more even"}
HEAD = """\
# The metrics

Written by `docs/generate.py` from the cards; `evenhand metrics NAME` prints the same. Every example runs in the tests.
Undefined is NaN with a reason code, never an invented number. "Differs from" gives other tools' numbers on the same input;
`convention=` gives them on purpose. Errors in the sources are listed in [errata.md](errata.md).
"""


PAGES = {
    "Inequality of an amount over units": "metrics-inequality.md",
    "Prefixes of one ranking, and attention on it": "metrics-ranking.md",
    "Exposure over many rankings": "metrics-exposure.md",
    "Pairs of items": "metrics-pairs.md",
    "The outcome test": "metrics-outcome.md",
    "What would change without the bias": "metrics-counterfactual.md",
    "Selection rates": "metrics-selection.md",
    "Another order of the same items": "metrics-rebalance.md",
    "Recommenders: groups of users, and items": "metrics-recommender.md",
}
"""The page of each family of metrics."""


def metrics_pages() -> dict[str, str]:
    """The index of all metrics and a page of cards per family, by file name."""
    by_family: dict[tuple[str, str], list[Metric]] = {}
    for _, metric in sorted(REGISTRY.items()):
        by_family.setdefault(FAMILIES[metric.card.needs.__name__], []).append(metric)
    index, pages = [HEAD], {}
    for family in dict.fromkeys(f for f in FAMILIES.values() if f in by_family):
        (title, audits), name = family, PAGES[family[0]]
        cards = by_family[family]
        lines = [f"| [`{m.card.name}`]({name}#{anchor(m)}) | {m.card.asks} |" for m in cards]
        index += [f"## {title}\n\nMeasured by {audits}.\n", "| metric | question |", "|---|---|", *lines, ""]
        pages[name] = "\n".join(
            [f"# {title}\n\nMeasured by {audits}. [All metrics](metrics.md).\n", *map(_section, cards)]
        )
    return {"metrics.md": "\n".join(index), **pages}


def page_of(metric: Metric) -> str:
    """The file that holds the card of a metric."""
    return PAGES[FAMILIES[metric.card.needs.__name__][0]]


def anchor(metric: Metric) -> str:
    """The link to a card within its page, as GitHub and the site make it of the heading."""
    return re.sub(r"[^\w-]", "", _heading(metric).lower().replace(" ", "-"))


def _heading(metric: Metric) -> str:
    symbol = f" ({metric.card.symbol})" if metric.card.symbol else ""
    words = f"{metric.card.title}{symbol}".replace("*", "\\*")
    return f"`{metric.card.name}` · {words}"


def _section(metric: Metric) -> str:
    card, (low, high), ideal = metric.card, metric.span(), metric.ideal()
    parameters = ", ".join(f"`{n}={p.default!r}`" for n, p in metric.parameters.items())
    lines = [f"## {_heading(metric)}", "", card.asks, ""]
    if card.formula:
        lines += [f"$${card.formula}$$", ""]
    direction = BETTER.get(metric.better(), "neither direction is better in itself")
    others = "".join(
        f", {_limit(least)} to {_limit(most)} with {' or '.join(f'`{choice}`' for choice in choices)}"
        for (least, most), choices in metric.other_spans().items()
    )
    lines.append(
        f"- **Range** {_limit(low)} to {_limit(high)}{others}; {direction}"
        + ("" if math.isnan(ideal) else f"; ideal {number(ideal)}")
    )
    if parameters:
        lines.append(f"- **Parameters** {parameters}")
    lines.append(
        f"- **Undefined** when {card.undefined}" if card.undefined else "- **Undefined** never, for well-formed input"
    )
    if edges := _edges(metric):
        lines.append(f"- **Edge cases** {edges}")
    lines.append(f"- **Example** {card.example}" if card.example else "- **Example**")
    lines += ["", *_example(metric), ""]
    if card.variants:
        lines += ["**Differs from**", "", *(f"- {text}" for text in card.variants), ""]
    lines += _comparison(metric)
    if card.references:
        lines += [f"<sub>{'; '.join(map(_citation, card.references))}</sub>", ""]
    return "\n".join(lines)


EDGES: dict[str, dict[str, object]] = {
    "Spectrum": {
        "no units": [],
        "one unit": [7],
        "all zero": [0, 0, 0],
        "all equal": [7, 7, 7, 7],
        "a zero inside": [0, 1, 2, 3],
    },
    "Crosstab": {
        "nothing shown": [[0.1, 0.2], [0.1, 0.2]],
        "everything shown": [[0.9, 0.8], [0.9, 0.8]],
        "nothing in common": [[0.9, 0.2], [0.2, 0.9]],
    },
}
SHOWN = {"threshold": 0.5, "user_groups": ["a", "b"], "relevant": [[1, 0], [1, 0]], "true_threshold": 0.5}


def _edges(metric: Metric) -> str:
    """The metric on inputs at the edge, computed when the page is written."""
    needs, said = metric.card.needs.__name__, []
    required = {n: 0.5 for n, p in metric.parameters.items() if p.default is inspect.Parameter.empty}
    keywords = {**required, **(SHOWN if needs == "Crosstab" else {})}
    for words, data in EDGES.get(needs, {}).items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UndefinedWarning)
            value = metric(data, **keywords)
        reason = next((w.message.reason for w in caught if isinstance(w.message, UndefinedWarning)), "")
        said.append(f"{words}: {f'nan (`{reason}`)' if reason else _limit(value)}")
    return "; ".join(said)


def _limit(value: float) -> str:
    return {math.inf: "∞", -math.inf: "−∞"}.get(value, number(value))


def _example(metric: Metric) -> list[str]:
    """The doctest of the function, as it stands."""
    found = doctest.DocTestParser().get_examples(inspect.getdoc(metric) or "")
    lines = []
    for example in found:
        first, *rest = example.source.rstrip("\n").split("\n")
        lines += [f">>> {first}", *(f"... {line}" for line in rest), *example.want.rstrip("\n").split("\n")]
    return ["```pycon", *lines, "```"]


def _comparison(metric: Metric) -> list[str]:
    if not metric.conventions:
        return []
    rows = compare(metric.card.name)
    inputs = list(rows[0].values)
    head = ["`convention=`", "tool", *(f"`{i}`" for i in inputs), "what it does"]
    cells = [[f"`{r.convention}`", r.tool, *(_value(r.values[i]) for i in inputs), r.does] for r in rows]
    cells[0][0] = "(none)"
    return [*(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *cells]), ""]


def _value(value: float) -> str:
    return "nan" if math.isnan(value) else number(value)


def _citation(key: str) -> str:
    work = CITED.get(key.partition(":")[0], {})
    return f"{work.get('authors', key)} ({work.get('year', 'n.d.')}), {work.get('title', '')}".rstrip(", ")


if __name__ == "__main__":
    for name, content in metrics_pages().items():
        (DOCS / name).write_text(content, encoding="utf-8")
        print(f"wrote {name}")
    schema = DOCS.parent / "src" / "evenhand" / "plan.schema.json"
    schema.write_text(plan_schema(), encoding="utf-8")
    print(f"wrote {schema.name}")
    vega = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    (ASSETS / "vega.js.gz").write_bytes(gzip.compress(vega.encode(), 9, mtime=0))
    print("wrote vega.js.gz")
