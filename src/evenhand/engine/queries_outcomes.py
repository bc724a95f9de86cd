"""The query of the outcome test: facts per group, and sums per score bin and group, measured from fitted lines.

Lines are found of sums per cell and joined to the rows; slices get numbers to be joined by, for a missing label would get lost.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from evenhand.engine.dialects import Dialect
from evenhand.engine.queries import answered, doubles, flag, kinds_query, selected, slice_keys
from evenhand.errors import EvenhandError
from evenhand.sources.outcomes import UNKNOWN, Roles
from evenhand.tallies.moments import POWERS
from evenhand.views.tally import part_of

SUMS = ("mass", "low", "high", "outcome_low", "outcome_high", "score_sum", "outcome_sum")
"""What is known of a group beside its rows and flags."""

CELL = ("bin", "held", "cell_low", "cell_high", "above", "below", "origin", "level", "slope")


SCOPE = ("scope_low", "scope_high")
"""Where ends are means of several scores, the ends of what is tested."""


def refuse_clusters(roles: Roles) -> None:
    """Clustered errors are made of whole clusters, and a tally holds sums."""
    if roles.clustered:
        raise EvenhandError(
            "Clustered errors are worked out from whole clusters, and a query adds them up. "
            "Pass the table itself, or covariance='HC1'."
        )


def flags_of(roles: Roles) -> dict[str, str]:
    """What is wrong with a row, by name, as conditions."""
    wanted = "wanted = 1 AND "
    found = {"no_score": "score_read IS NULL", "no_outcome": f"{wanted}outcome_read IS NULL"}
    if roles.treated is not None:
        found |= {"odd": "treated_read <> 0 AND treated_read <> 1", "untold": "treated_read IS NULL"}
    if roles.request is not None:
        found["no_request"] = "request_id IS NULL"
    if roles.weight is not None:
        found |= {"no_weight": "weight_read IS NULL", "zero_weight": "weight_read = 0"}
        found["negative_weight"] = "weight_read < 0 OR weight_read > 1.7e308"
    return found


def shares_of(bins: Sequence[int]) -> list[Fraction]:
    """Where the edges of so many bins, or so many, lie: shares of the rows."""
    return list(_shares_of(tuple(bins)))


@functools.lru_cache(maxsize=8)
def _shares_of(bins: tuple[int, ...]) -> tuple[Fraction, ...]:
    return tuple(sorted({Fraction(d, b) for b in bins for d in range(1, b)}))


def outcomes_part(roles: Roles, kind: str, threshold: float | None, bins: Any, fewest: int = 0) -> str:
    """What a row of `outcomes_query` is about."""
    named: dict[str, Any] = {"kind": kind, "threshold": None if threshold is None else str(float(threshold))}
    named["min_units"] = str(fewest) if fewest > 1 else None
    for role, column in roles.named():
        named.setdefault(role, []).append(column)
    return part_of(
        "outcome_test", {**named, "bins": str(bins) if isinstance(bins, int) else [str(float(e)) for e in bins]}
    )


def outcomes_columns(roles: Roles, edges: int, fewest: int = 0) -> list[str]:
    """The numbers that a row of `outcomes_query` has: of a group, or of a cell."""
    kinds = ("sum", "square") if roles.weight is not None else ("sum",)
    powers = [f"{kind}_{i}{j}" for kind in kinds for i, j in POWERS]
    scope = SCOPE if fewest > 1 else ()
    return [*_facts(roles), *SUMS, *CELL, *powers, *(f"edge_{k}" for k in range(edges)), *scope]


def outcomes_labels(roles: Roles) -> list[str]:
    """The labels that a row of `outcomes_query` has."""
    return ["reach", *slice_keys(roles.by), "label"]


def _facts(roles: Roles) -> list[str]:
    return ["rows_read", *flags_of(roles), "used"]


def outcomes_query(
    d: Dialect, table: str, roles: Roles, *, kind: str, threshold: float | None, bins: Any, edges: Sequence[Any],
    truth: Collection[str] = (), fewest: int = 0,
) -> str:  # fmt: skip
    """Rows per group, and rows per scope, bin and group.

    `edges` are what `bins` stand for: shares of the rows (fractions: the scores there are found first) or scores. With
    `fewest`, groups of fewer rows are left out, and ends and edges are means of so many scores.
    """
    refuse_clusters(roles)
    keys = slice_keys(roles.by)
    about = d.word(outcomes_part(roles, kind, threshold, bins, fewest))
    few = fewest > 1
    cells = "tally_cells AS r" + (_joined_by(keys, "slice_cell", "tally_scope", "slice_scope") if few else "")
    cells += _joined_by(keys, "slice_cell", "tally_shares", "slice_edge") if few and _at_shares(edges) else ""
    parts = [
        ("tally_rows", selected(_read(d, roles, truth), f"{d.table(table)} AS t")),
        ("tally_wanted", selected(["r.*", f"{flag(_wanted(roles, threshold))} AS wanted"], "tally_rows AS r")),
        ("tally_flags", selected(["r.*", *(f"{flag(test)} AS {name}" for name, test in flags_of(roles).items())], "tally_wanted AS r")),
        ("tally_marked", selected(["r.*", f"{flag(_sound(roles))} AS used"], "tally_flags AS r")),
        ("tally_facts", selected(_group_facts(d, roles), "tally_marked", by=[*keys, "label"])),
        *_steps(d, roles, kind, edges, threshold, fewest),
        ("tally_cells", selected(_cell_sums(roles, few=few), "tally_lines", by=["reach", *keys, "label", "bin"])),
        ("tally_edges", selected(["r.*", *_edge_scores(d, keys, edges, few=few)], cells)),
        ("tally_kinds", kinds_query(d, table, _kinds(roles))),
    ]  # fmt: skip
    columns, labels = outcomes_columns(roles, len(edges), fewest), outcomes_labels(roles)
    groups = [*_facts(roles), *SUMS]
    own = {name: name for name in (*keys, "label")}
    facts = {c: _inner(c) if c in _facts(roles) else c for c in groups}
    sums = {c: _inner(c) for c in columns if c not in groups}
    told = [(d.word("group"), own, facts, "tally_facts"), ("reach", own, sums, "tally_edges")]
    answers = [
        _answer(d, about, labels, columns, {"reach": reach, **named}, numbers, source)
        for reach, named, numbers, source in told
    ]
    return answered(d, parts, answers, labels, columns, list(_kinds(roles)))


def _kinds(roles: Roles) -> dict[str, str]:
    """Labels whose type is looked up in the table, for they are text before they are answers."""
    return {"label": roles.group}


def _inner(column: str) -> str:
    """What a sum or a maximum of a column is called where the column itself is at hand."""
    kept = column == "rows_read" or column in CELL[:6] or column.startswith(("sum_", "square_"))
    return column if kept else f"{column}_"


def _answer(
    d: Dialect, about: str, labels: Sequence[str], columns: Sequence[str], named: Mapping[str, str], own: Mapping[str, str],
    source: str,
) -> str:  # fmt: skip
    """Rows of one kind, with nothing in the columns of the others."""
    chosen = [f"{about} AS part", *(f"{named.get(name, d.as_text('NULL'))} AS read_{name}" for name in labels)]
    chosen += [f"kind_{name}" for name in labels if name == "label"]
    numbers = doubles(d, {c: own.get(c, "NULL") for c in columns})
    return selected([*chosen, *numbers], f"{source} CROSS JOIN tally_kinds")


def _read(d: Dialect, roles: Roles, truth: Collection[str]) -> list[str]:
    chosen = [f"{d.label(b)} AS {key}" for key, b in zip(slice_keys(roles.by), roles.by, strict=True)]
    chosen.append(f"COALESCE({d.as_text(d.label(roles.group))}, {d.word(UNKNOWN)}) AS label")
    numbers = {"score": roles.score, "outcome": roles.outcome, "treated": roles.treated, "weight": roles.weight}
    chosen += [f"{d.number(c, truth=c in truth)} AS {role}_read" for role, c in numbers.items() if c is not None]
    return chosen + ([f"{d.label(roles.request)} AS request_id"] if roles.request is not None else [])


def _wanted(roles: Roles, threshold: float | None) -> str:
    tests = ["treated_read > 0"] if roles.treated is not None else []
    tests += [f"score_read >= {threshold!r}"] if threshold is not None else []
    return " AND ".join(tests) or "1 = 1"


def _sound(roles: Roles) -> str:
    wrong = [name for name in flags_of(roles) if name not in ("odd", "negative_weight")]
    return " AND ".join(["wanted = 1", *(f"{name} = 0" for name in wrong)])


def _group_facts(d: Dialect, roles: Roles) -> list[str]:
    w = "weight_read" if roles.weight is not None else "1"

    def counts(value: str) -> str:
        return f"CASE WHEN used = 1 THEN {value} END"

    found = [
        *slice_keys(roles.by),
        "label",
        "COUNT(*) AS rows_read",
        *(f"SUM({name}) AS {_inner(name)}" for name in _facts(roles)[1:]),
    ]
    found += [
        f"SUM({counts(w)}) AS mass",
        f"MIN({counts('score_read')}) AS low",
        f"MAX({counts('score_read')}) AS high",
    ]
    found += [f"MIN({counts('outcome_read')}) AS outcome_low", f"MAX({counts('outcome_read')}) AS outcome_high"]
    return [
        *found,
        f"SUM({counts(f'{w} * score_read')}) AS score_sum",
        f"SUM({counts(f'{w} * outcome_read')}) AS outcome_sum",
    ]


def _over(*keys: str) -> str:
    return f"OVER (PARTITION BY {', '.join(keys)})" if keys else "OVER ()"


def _steps(
    d: Dialect, roles: Roles, kind: str, edges: Sequence[Any], threshold: float | None, fewest: int
) -> Iterator[tuple[str, str]]:
    """From rows that count to rows with their bin, its line, and what is left of the outcome."""
    few = fewest > 1
    keys = slice_keys(roles.by)
    slice_, group = _over(*keys), _over(*keys, "label")
    weight = "weight_read" if roles.weight is not None else d.as_double("1")
    own = [*keys, "label"]
    held = [*own, *(["slice_of"] if keys else []), "s", "y", "w", "y_low", "y_high", "middle_s", "middle_y"]
    own += [f"DENSE_RANK() OVER (ORDER BY {', '.join(keys)}) AS slice_of"] if keys else []
    own += ["score_read AS s", "outcome_read AS y", f"{weight} AS w"]
    own += [f"MIN(outcome_read) {slice_} AS y_low", f"MAX(outcome_read) {slice_} AS y_high"]
    own += [f"AVG(score_read) {slice_} AS middle_s", f"AVG(outcome_read) {slice_} AS middle_y"]
    own += [f"MIN(score_read) {group} AS own_low", f"MAX(score_read) {group} AS own_high"]
    if few:
        yield "tally_sized", selected(["r.*", f"COUNT(*) {group} AS own_rows"], "tally_marked AS r", where="used = 1")
    rows = ("tally_sized", f"own_rows >= {fewest}") if few else ("tally_marked", "used = 1")
    yield "tally_used", selected(own, rows[0], where=rows[1])
    everyone = selected([f"{d.word('all')} AS reach", *held], "tally_used")
    inside = "s >= shared_low AND s <= shared_high"
    if kind == "ranking" or few:
        low, high = ("MAX(own_low)", "MIN(own_high)") if kind == "ranking" else ("MIN(own_low)", "MAX(own_high)")
        ends = ["r.*", f"{low} {slice_} AS shared_low", f"{high} {slice_} AS shared_high"]
        yield "tally_ends", selected(ends, "tally_used AS r")
    if few:
        yield from _few_steps(d, keys, inside, edges, threshold, fewest)
    elif kind == "ranking":
        shared = selected([f"{d.word('shared')} AS reach", *held], "tally_ends", where=inside)
        everyone = f"{shared}\n  UNION ALL\n{everyone}"
    yield "tally_scopes", everyone
    source, tests = "tally_scopes", [f"s <= {float(e)!r}" for e in edges]
    if _at_shares(edges):
        part = f"PARTITION BY {', '.join(['reach', *keys])}"
        places = ["r.*", f"RANK() OVER ({part} ORDER BY s) AS place", f"COUNT(*) OVER ({part}) AS many"]
        yield "tally_places", selected(places, "tally_scopes AS r")
        source, tests = "tally_places", [f"place <= {_place(d, e)}" for e in edges]
    columns = ["reach", *held] if few else ["r.*"]
    binned = selected([*columns, f"{_bin_of(tests)} AS bin"], f"{source} AS r")
    if few:
        tests = [f"s <= mean_{k} + {_hair(f'mean_{k}')}" for k in range(len(edges))] if _at_shares(edges) else tests
        met = _joined_by(keys, "slice_of", "tally_shares", "slice_edge") if _at_shares(edges) else ""
        shared = selected(
            [f"{d.word('shared')} AS reach", *held, f"{_bin_of(tests)} AS bin"], f"tally_placed AS r{met}"
        )
        binned = f"{shared}\n  UNION ALL\n{binned}"
    yield "tally_bins", binned
    yield from _lines(keys)


def _hair(mean: str) -> str:
    """By how much a score may miss a mean that it is: sums end in digits of their own."""
    return f"1e-12 * ABS({mean})"


def _at_shares(edges: Sequence[Any]) -> bool:
    """Whether the edges are to be found: shares of the rows, not scores."""
    return any(isinstance(e, Fraction) for e in edges)


def _bin_of(tests: Sequence[str]) -> str:
    cases = "".join(f"\n      WHEN {test} THEN {k}" for k, test in enumerate(tests))
    return f"CASE{cases}\n      ELSE {len(tests)}\n    END" if tests else "0"


def _joined_by(keys: Sequence[str], mine: str, other: str, theirs: str) -> str:
    """What is known of a slice beside its rows."""
    return f"\n  LEFT JOIN {other} ON {mine} = {theirs}" if keys else f"\n  CROSS JOIN {other}"


def _few_steps(
    d: Dialect, keys: Sequence[str], inside: str, edges: Sequence[Any], threshold: float | None, fewest: int
) -> Iterator[tuple[str, str]]:
    """Rows within ends that are means of `fewest` scores, with their place; and edges that are such means, slice by slice."""
    slice_, part = _over(*keys), f"PARTITION BY {', '.join(keys)} " if keys else ""
    places = [
        f"ROW_NUMBER() OVER ({part}ORDER BY s{way}) AS from_{end}" for end, way in (("low", ""), ("high", " DESC"))
    ]
    yield "tally_inside", selected(["r.*", *places], "tally_ends AS r", where=inside)
    outer = [f"MAX(CASE WHEN from_low <= {fewest} THEN s END) {slice_} AS low_to"]
    outer += [f"MIN(CASE WHEN from_high <= {fewest} THEN s END) {slice_} AS high_from"]
    outer += [f"MIN(s) {slice_} AS lowest", f"MAX(s) {slice_} AS highest"]
    yield "tally_outer", selected(["r.*", *outer], "tally_inside AS r")
    low = f"CASE WHEN low_to = lowest THEN lowest ELSE AVG(CASE WHEN s <= low_to THEN s END) {slice_} END"
    low = low if threshold is None else f"LEAST({low}, {d.as_double(repr(threshold))})"
    high = f"CASE WHEN high_from = highest THEN highest ELSE AVG(CASE WHEN s >= high_from THEN s END) {slice_} END"
    yield "tally_means", selected(["r.*", f"{low} AS low_of", f"{high} AS high_of"], "tally_outer AS r")
    own = ["MAX(low_of) AS scope_low_", "MAX(high_of) AS scope_high_"]
    by = ["slice_of"] if keys else []
    yield "tally_scope", selected([*(["slice_of AS slice_scope"] if keys else []), *own], "tally_means", by=by)
    order = f"ROW_NUMBER() OVER ({part}ORDER BY s)"
    placed = ["r.*", f"{order} AS place", f"COUNT(*) {slice_} AS many"]
    yield (
        "tally_placed",
        selected(
            placed, "tally_means AS r", where=f"s >= low_of - {_hair('low_of')} AND s <= high_of + {_hair('high_of')}"
        ),
    )
    if not _at_shares(edges):
        return
    cuts, means = (["slice_of AS slice_cut"], ["slice_of AS slice_edge"]) if keys else ([], [])
    for k, share in enumerate(edges):
        first = f"GREATEST(1, LEAST({_place(d, share)} - {fewest // 2}, many - {fewest - 1}))"
        last = f"LEAST({first} + {fewest - 1}, many)"
        cuts += [f"MAX(CASE WHEN place = {at} THEN s END) AS {end}_{k}" for end, at in (("from", first), ("to", last))]
        mean = f"AVG(CASE WHEN s >= from_{k} AND s <= to_{k} THEN s END)"
        means.append(f"CASE WHEN MAX(from_{k}) = MAX(to_{k}) THEN MAX(from_{k}) ELSE {mean} END AS mean_{k}")
    yield "tally_cuts", selected(cuts, "tally_placed", by=by)
    met = f"tally_placed AS r{_joined_by(keys, 'slice_of', 'tally_cuts', 'slice_cut')}"
    yield "tally_shares", selected(means, met, by=by)


def _place(d: Dialect, share: Fraction) -> str:
    """Where in order of the scores the edge of a share stands; a score is below it where the first of its like is."""
    return f"FLOOR({d.as_double(f'many * {share.numerator} + {share.denominator - 1}')} / {share.denominator})"


FLAT = 1e-12
"""Where the scores of a bin differ by so little, in squares and seen from the middle, the line through it is level."""


def _lines(keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Rows seen from the line of their cell: one slope for the groups of a bin. Any line near them will do: sums are told from it."""
    cell = ["reach", *keys, *(["slice_of"] if keys else []), "label", "bin"]
    x, y = "(s - middle_s)", "(y - middle_y)"
    sums = {
        "mass_of": "w",
        "sum_s": f"w * {x}",
        "sum_y": f"w * {y}",
        "sum_ss": f"w * {x} * {x}",
        "sum_sy": f"w * {x} * {y}",
    }
    fits = [*cell, *(f"SUM({value}) AS {name}" for name, value in sums.items())]
    fits += ["MAX(middle_s) AS about_s", "MAX(middle_y) AS about_y"]
    yield "tally_fits", selected(fits, "tally_bins", by=cell)
    own = ["r.*", "about_s + sum_s / mass_of AS mean_s", "about_y + sum_y / mass_of AS mean_y"]
    own += ["sum_ss - sum_s * sum_s / mass_of AS spread", "sum_sy - sum_s * sum_y / mass_of AS across"]
    yield "tally_fitted", selected(own, "tally_fits AS r")
    bin_ = _over("reach", *keys, "bin")
    line = [f"{name} AS {name}_of" for name in cell] + ["mean_s", "mean_y"]
    line.append(f"about_s + SUM(sum_s) {bin_} / SUM(mass_of) {bin_} AS origin")
    steep = f"SUM(spread) {bin_} > {FLAT!r} * SUM(sum_ss) {bin_}"
    line.append(f"CASE WHEN {steep} THEN SUM(across) {bin_} / SUM(spread) {bin_} ELSE 0 END AS slope")
    yield "tally_sloped", selected(line, "tally_fitted")
    seen = ["r.*", "origin", "slope", "s - origin AS u", "mean_y - slope * (mean_s - origin) AS level"]
    seen.append("y - mean_y - slope * (s - mean_s) AS v")
    on = " AND ".join(f"r.{name} = {name}_of" for name in cell if name not in keys)
    joined = f"tally_bins AS r LEFT JOIN tally_sloped AS l ON {on}"  # every row has its line, and PostgreSQL believes it only so
    yield "tally_lines", selected(seen, joined)


def _cell_sums(roles: Roles, *, few: bool) -> list[str]:
    found = [
        "reach",
        *slice_keys(roles.by),
        "label",
        "bin",
        "COUNT(*) AS held",
        "MIN(s) AS cell_low",
        "MAX(s) AS cell_high",
    ]
    found += ["MAX(slice_of) AS slice_cell"] if few and roles.by else []
    found += [f"SUM({flag('y > y_low')}) AS above", f"SUM({flag('y < y_high')}) AS below"]
    found += [f"MAX({name}) AS {_inner(name)}" for name in ("origin", "level", "slope")]
    kinds = {"sum": ["w"], "square": ["w", "w"]} if roles.weight is not None else {"sum": ["w"]}
    for name, weights in kinds.items():
        found += [f"SUM({' * '.join([*weights, *['u'] * i, *['v'] * j])}) AS {name}_{i}{j}" for i, j in POWERS]
    return found


def _edge_scores(d: Dialect, keys: Sequence[str], edges: Sequence[Any], *, few: bool) -> list[str]:
    """The scores that are the edges: those that were asked for, or the largest that is below each, or a mean."""
    highest = f"THEN cell_high END) {_over('reach', *keys)}"
    found = [_inner(name) for name in SCOPE] if few else []
    for k, edge in enumerate(edges):
        score = f"MAX(CASE WHEN bin <= {k} {highest}" if isinstance(edge, Fraction) else d.as_double(repr(float(edge)))
        if few and isinstance(edge, Fraction):
            score = f"CASE WHEN reach = {d.word('shared')} THEN mean_{k} ELSE {score} END"
        found.append(f"{score} AS {_inner(f'edge_{k}')}")
    return found
