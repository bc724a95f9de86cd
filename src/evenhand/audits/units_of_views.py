"""What every audit of units does at its start: check the table, the population and the slices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from evenhand.audits.declare import Takes, log, pairs
from evenhand.engine.bins import Legend, bin_slices
from evenhand.engine.counted import CountedPopulation, view_counted
from evenhand.engine.populations import join_population, meeting, open_population, pad
from evenhand.engine.spectra import Slices, tally_slices, whole_labels
from evenhand.errors import EvenhandError
from evenhand.sources.slicing import Bins, LogBins, QuantileBins, Slicing, slicing
from evenhand.views.benefits import Amount, Benefits, NanPolicy, view_benefits
from evenhand.views.tables import Table, open_table
from evenhand.views.tally import Tally, tally_of

ONLY_SEEN = "only units seen"


def sizes(words: list[str]) -> Any:
    """A population as the command line writes it: a number, `slice=number,...`, or a path.

    >>> sizes(["1,000"]), sizes(["a=3,b=4"]), sizes(["authors.csv"])
    (1000, {'a': 3, 'b': 4}, 'authors.csv')
    """
    text = words[-1]
    if re.fullmatch(r"-?(\d+(_\d+)*|\d{1,3}(,\d{3})+)", text):
        return int(text.replace(",", ""))
    if re.fullmatch(r"-?[\d,]+", text):
        raise EvenhandError(
            f"--population {text!r} is not one number: a comma stands before every three digits, as in 1,000,000. "
            "Write one number, or slice=number,slice=number."
        )
    if "=" not in text or text.endswith((".parquet", ".csv", ".jsonl", ".gz")):
        return text
    return pairs("population", text, int)


By = Annotated[str | LogBins | QuantileBins | Sequence[str | LogBins | QuantileBins] | None, Takes("COLUMN", many=True)]
Population = Annotated[Any, Takes("N|FILE|SLICE=N,...|none", table=True, sizes=True, read=sizes)]


@dataclass(frozen=True)
class Units:
    """A checked table of who received what, everyone who could have, and what the bins are called."""

    view: Benefits
    everyone: Any
    legend: Legend
    asked: Slicing

    @property
    def by(self) -> tuple[str, ...]:
        return self.view.by

    @property
    def columns(self) -> list[str]:
        """Slice columns of the frame, edges of bins included."""
        return self.legend.columns(self.by)

    def slices(self, amount: Amount, *, bins: bool = False) -> Slices:
        """One spectrum per slice, the unseen included, called by name; `bins` of amounts will do where units are too many."""
        named = self.legend.named(self.by, self.padded(tally_slices(self.view, amount, bins=bins)))
        return replace(named, labels=whole_labels(named.labels))

    def padded(self, seen: Slices) -> Slices:
        """Slices with the units that nobody saw."""
        return pad(seen, self.view, self.legend.numbered(self.by, self.everyone))

    def whole(self) -> Units:
        """The same units without the part that splits them."""
        return replace(self, view=replace(self.view, by=self.by[:-1]))

    def cells(self, label: tuple[Any, ...]) -> dict[str, Any]:
        """A slice as cells of the frame."""
        return self.legend.cells(self.by, label)

    @property
    def population_words(self) -> Any:
        """Who was counted, for the record."""
        if self.everyone is None:
            return ONLY_SEEN
        if isinstance(self.everyone, Table):
            return self.everyone.origin
        if isinstance(self.everyone, CountedPopulation):
            return self.everyone.table
        return {str(k): v for k, v in self.everyone.items()} if isinstance(self.everyone, Mapping) else self.everyone


def units_of(
    table: Any,
    *,
    unit: str | None,
    amount: str | Sequence[str] | None,
    population: Any,
    by: By = None,
    weight: str | None = None,
    nan_policy: NanPolicy = "raise",
    part: tuple[str, str | Bins] | None = None,
    marks: Mapping[str, str] | None = None,
) -> Units:
    """Open and check everything that was passed; nothing is added up yet.

    `part` is a role and its column (`("group", "band")`) that splits the units' amounts further without being a slice; it
    becomes the last of `by`. `marks` are other columns by role (`{"arm": "variant"}`).
    """
    asked = slicing(by)
    if (held := tally_of(table)) is not None:
        return _counted(held, asked, unit, amount, population, weight, nan_policy, part, marks)
    split = slicing([part[1]], part[0]) if part else slicing(None)
    wanted = (*asked.columns, *split.columns)
    sizes = [one.column for one in (*asked.bins, *split.bins)]
    everyone = open_population(population, unit, numbers=sizes)
    opened = open_table(table).numbers(*sizes)
    elsewhere = _only_in_population(opened, everyone, wanted)
    log.info("checking the table")
    view = view_benefits(
        opened,
        unit=unit,
        amount=amount,
        by=wanted,
        weight=weight,
        nan_policy=nan_policy,
        elsewhere=elsewhere,
        part=part[0] if part else "",
        marks=marks,
    )
    view = meeting(view, everyone)
    view = join_population(view, everyone if isinstance(everyone, Table) else None, elsewhere)
    view, everyone, legend = bin_slices(view, everyone, (*asked.bins, *split.bins))
    twice = [name for name in legend.columns(view.by) if legend.columns(view.by).count(name) > 1]
    if twice:
        raise EvenhandError(f"by={twice[0]!r} is also the name of a bin's edge. Rename that column of the table first.")
    return Units(view, everyone, legend, asked)


def _counted(
    held: Tally, asked: Slicing, unit: str | None, amount: Any, population: Any, weight: str | None, nan_policy: NanPolicy,
    part: tuple[str, str | Bins] | None, marks: Mapping[str, str] | None,
) -> Units:  # fmt: skip
    """The same from the rows of a query: whatever would need single units is refused."""
    split = slicing([part[1]], part[0]) if part else slicing(None)
    if part and part[0] != "source":
        raise EvenhandError(f"{part[0]}={part[1]!r} needs the table: no query counts it. Pass the table itself.")
    refuse_uncounted(asked, split, next(iter(marks.values())) if marks else None)
    everyone = None if isinstance(population, str) else open_population(population, unit)
    if isinstance(everyone, Table):
        raise EvenhandError(UNCOUNTED.format(population="population"))
    several = amount is not None and not isinstance(amount, str)
    view = view_counted(
        held, unit=unit, amounts=list(amount) if several else [amount], by=asked.columns, weight=weight, nan_policy=nan_policy,
        source=split.columns[0] if part else None,
    )  # fmt: skip
    if isinstance(population, str):
        everyone = view.counted.everyone
        if everyone is None or everyone.table != population:
            raise EvenhandError(UNCOUNTED.format(population=f"population={population!r}"))
    if part:  # told apart again by `whole`
        view = replace(view, by=(*asked.columns, *split.columns))
    return Units(view, everyone, Legend(), asked)  # type: ignore[arg-type]


UNCOUNTED = (
    "{population} is a table of units that the query of this tally did not count. Print the query with it, or pass how many "
    "there are, or {{slice: number}}."
)


def refuse_uncounted(asked: Slicing, split: Slicing, viewer: Any) -> None:
    """What no count per slice can tell is refused in the same words before a query is printed and where its rows are read."""
    if asked.bins or split.bins:
        (spec, *_) = (*asked.bins, *split.bins)
        raise EvenhandError(
            f"{spec} needs the table, and a tally holds no single units. Make the bins a column of the table."
        )
    if viewer is not None:
        raise EvenhandError(f"within={viewer!r} needs the table: a tally holds no single viewers. Leave it out.")


def _only_in_population(opened: Table, everyone: Any, by: Sequence[str]) -> list[str]:
    """Slice columns that the population table has and the table has not."""
    if not isinstance(everyone, Table):
        return []
    mine, theirs = opened.schema.names(), everyone.schema.names()
    return [b for b in by if b not in mine and b in theirs]
