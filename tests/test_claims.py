"""Claims: what is made, what is not, and that a saved result keeps them."""

import math

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand.claims import Candidate, decide
from evenhand.findings import Findings, row, tidy


def candidate(p: float, **about: object) -> Candidate:
    return Candidate(p, "higher", "it is higher", "no significant difference", "gini", **about)  # type: ignore[arg-type]


def test_p_values_are_adjusted_over_all_claims_that_a_result_could_make() -> None:
    claims = decide([candidate(0.02), candidate(0.6), candidate(0.03)], 0.95)
    assert [c.p_adjusted for c in claims] == pytest.approx([0.06, 0.6, 0.06])
    assert not any(c.made for c in claims)


def test_a_claim_that_is_not_made_has_no_direction_and_says_so() -> None:
    made, other = decide([candidate(0.01), candidate(0.5)], 0.95)
    assert (made.text, made.direction, made.made) == ("it is higher", "higher", True)
    assert (other.text, other.direction, other.made) == ("no significant difference", "none", False)


def test_a_candidate_without_a_test_is_never_made_and_does_not_count() -> None:
    tested, untested = decide([candidate(0.05), candidate(math.nan)], 0.95)
    assert tested.made
    assert not untested.made


def test_a_claim_is_found_by_its_row_and_survives_saving() -> None:
    rows = [row({"source": s}, "gini", estimate=0.5) for s in ("a", "b")]
    claims = decide([candidate(0.001, where={"source": "b"})], 0.95)
    findings = Findings("inequality", "?", ("source",), tidy(rows, ["source"]), claims=claims)
    assert findings.claim(rows[0]) is None
    assert findings.claim(rows[1]) == claims[0]
    assert Findings.from_dict(findings.to_dict()).claims == claims


def test_every_result_has_claims_and_a_headline() -> None:
    result = eh.inequality(
        pl.DataFrame({"author": ["a", "b", "c"], "views": [1, 2, 7]}),
        unit="author",
        amount="views",
        population=3,
        rng=1,
    )
    assert isinstance(result.claims, tuple)
    assert all(isinstance(claim, eh.Claim) for claim in result.claims)
    assert result.headline.endswith(".")


def test_a_caution_is_said_once_with_the_rows_that_it_concerns() -> None:
    few = [row({"source": s}, "gini", estimate=0.5, note="few_units") for s in ("a", "b")]
    other = row({"source": "c"}, "gini", estimate=0.4)

    def spoken(rows: list[dict[str, object]]) -> list[str]:
        return eh.Result(Findings("inequality", "?", ("source",), tidy(rows, ["source"]))).sentences()

    some, every = spoken([*few, other]), spoken(few)
    assert some[-1].startswith("Caution for gini (a), gini (b): few units: the interval is rough")
    assert every[-1].startswith("Caution for all numbers: few units: the interval is rough")
    assert not any("rough" in sentence for sentence in (*some[:-1], *every[:-1]))
    assert spoken([few[0], other])[-1].startswith("Caution for gini (a): few units: the interval is rough")


def by_source(spread: float) -> eh.Result:
    rng = np.random.default_rng(4)
    sizes = {"home": spread, "search": 0.5, "ads": 0.5}
    amounts = {name: rng.lognormal(0, sigma, 300) for name, sigma in sizes.items()}
    table = pl.DataFrame({"author": np.arange(300), **amounts}).unpivot(index="author", variable_name="source")
    return eh.sources(
        table, unit="author", amount="value", source="source", population=None, rng=1, interval="bootstrap(199)"
    )


def test_a_source_that_raises_inequality_most_is_named_and_others_are_not() -> None:
    skewed, alike = by_source(1.5), by_source(0.5)
    assert skewed.headline.startswith("More home would raise inequality most: ")
    assert {(c.group, c.direction) for c in skewed.claims if c.made} >= {("home", "most"), ("home", "higher")}
    assert alike.headline == "No source stands out."
    assert not any(c.made for c in alike.claims)
    for result in (skewed, alike):
        for r, sentence in zip(result.findings.rows(), result.sentences(), strict=False):
            if r["metric"] == "marginal":
                claim = result.findings.claim(r)
                assert claim is not None
                assert claim.made == (" raise " in sentence or " lower " in sentence)
                assert claim.made != ("not statistically significant" in sentence)


def by_group(gap: float) -> eh.Result:
    rng = np.random.default_rng(6)
    band = rng.integers(3, size=200)
    table = pl.DataFrame(
        {"author": np.arange(200), "band": band.astype(str), "views": rng.lognormal(gap * band, 1.0, 200)}
    )
    return eh.decompose(
        table, unit="author", amount="views", group="band", population=None, rng=1, interval="bootstrap(99)"
    )


def test_groups_differ_only_where_permuted_labels_say_so() -> None:
    apart, alike = by_group(1.0), by_group(0.0)
    assert apart.headline.endswith("; bands differ in views.")
    assert alike.headline.endswith("; no significant difference between bands.")
    assert "where they overlap" in alike.headline
    assert [c.made for c in apart.claims + alike.claims] == [True, False]
    chance = {r["metric"]: r["chance"] for r in alike.findings.rows() if r["group"] is None}
    estimate = {r["metric"]: r["estimate"] for r in alike.findings.rows() if r["group"] is None}
    assert sum(chance[part] for part in ("within", "between", "overlap")) == pytest.approx(estimate["total"])
    assert 0 < chance["between"] < 0.15
    assert alike.provenance["chance"]["between"] == "with groups permuted"


def test_the_headline_of_slices_has_no_superlative() -> None:
    rng = np.random.default_rng(2)
    table = pl.DataFrame({"unit": np.arange(600), "slice": np.arange(600) % 3, "x": rng.lognormal(0, 1, 600)})
    result = eh.inequality(table, unit="unit", amount="x", population=None, by="slice", rng=1, interval=None)
    assert " from " in result.headline
    assert "most" not in result.headline
