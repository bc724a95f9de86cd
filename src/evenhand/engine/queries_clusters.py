"""Clustered errors of the outcome test in a query: sums per cluster and cell, or their products added up over clusters.

Few clusters are listed, one by one. Of many, the products of two sums of a cluster are added up: all that `ClusterSquares` needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from evenhand.engine.dialects import Dialect
from evenhand.engine.queries import selected
from evenhand.tallies.clusters import LINEAR

PAIRS = tuple(itertools.product(range(len(LINEAR)), repeat=2))

PRODUCTS = ("bin_2", *(f"product_{i}{j}" for i, j in PAIRS))
"""What a row of products knows beside its cell: the other bin, and the products of the sums of both cells."""

MOST_LISTED = 200_000
"""Up to so many cells of clusters, the query lists them."""


def cluster_parts(d: Dialect, keys: Sequence[str]) -> list[tuple[str, str]]:
    """From rows measured from their lines to clusters, their products, and their steps.

    Steps say how many clusters have rows in a bin by the bin before it in which they have some: of a group, and of anybody.
    """
    scope = ["reach", *keys]
    cell = [*scope, "cluster_id", "label", "bin"]
    sums = [f"SUM({' * '.join(['w', *['u'] * i, *['v'] * j])}) AS m{k}" for k, (i, j) in enumerate(LINEAR)]
    number = f"DENSE_RANK() OVER (ORDER BY {', '.join([*scope, 'cluster_id'])}) AS member"
    first = [f"a.{name} AS {name}_1" for name in (*scope, "label", "bin")]
    both = [*first, "b.label AS label_other", "b.bin AS bin_other", *(f"a.m{i} * b.m{j} AS x{i}{j}" for i, j in PAIRS)]
    pair = [*(f"{name}_1" for name in (*scope, "label", "bin")), "label_other", "bin_other"]
    parts = [
        ("tally_members", selected([*cell, *sums], "tally_lines", by=cell)),
        ("tally_counted", selected(["r.*", number, "COUNT(*) OVER () AS many"], "tally_members AS r")),
        ("tally_many", selected(["r.*"], "tally_counted AS r", where=f"many > {MOST_LISTED}")),
        ("tally_both", selected(both, "tally_many AS a JOIN tally_many AS b ON a.member = b.member",
                                where="a.bin < b.bin OR (a.bin = b.bin AND a.label <= b.label)")),
        ("tally_products", selected([*pair, *(f"SUM(x{i}{j}) AS product_{i}{j}" for i, j in PAIRS)], "tally_both", by=pair)),
        ("tally_anybody", selected([*scope, "member", "bin"], "tally_many", by=[*scope, "member", "bin"])),
    ]  # fmt: skip
    for source, name, own in (("tally_many", "tally_steps", ["label"]), ("tally_anybody", "tally_steps_of_any", [])):
        before = f"LAG(bin) OVER (PARTITION BY {', '.join(['member', *own])} ORDER BY bin) AS bin_before"
        step = [*scope, *own, "bin", "bin_before"]
        parts.append((f"{name}_taken", selected([*scope, *own, "bin", before], source)))
        parts.append((name, selected([*step, "COUNT(*) AS clusters"], f"{name}_taken", by=step)))
    return parts


def cluster_answers(d: Dialect, keys: Sequence[str]) -> list[tuple[str, dict[str, str], dict[str, str], str]]:
    """For each kind of rows: its reach, its labels and its numbers by name, and where they come from."""
    own = {name: name for name in keys}
    listed = f"(\n{selected(['r.*'], 'tally_counted AS r', where=f'many <= {MOST_LISTED}', indent='    ')}\n  ) AS c"
    names = {f"sum_{i}{j}": f"m{k}" for k, (i, j) in enumerate(LINEAR)}
    step = {"bin": "bin", "bin_2": "bin_before", "held": "clusters"}
    products = {"bin": "bin_1", "bin_2": "bin_other", **{name: name for name in PRODUCTS[1:]}}

    def reach(kind: str, column: str = "reach") -> str:
        return f"CONCAT({column}, {d.word(f' {kind}')})"

    return [
        (reach("clusters"), own | {"label": "label", "cluster": d.as_text("cluster_id")}, {"bin": "bin", **names}, listed),
        (reach("products", "reach_1"), {key: f"{key}_1" for key in keys} | {"label": "label_1", "label_2": "label_other"},
         products, "tally_products"),
        (reach("steps"), own | {"label": "label"}, step, "tally_steps"),
        (reach("any"), own, step, "tally_steps_of_any"),
    ]  # fmt: skip
