"""A page for the file: question, answer, scope, method, limits, hashes, sign-off, in the order of a template.

A template is a TOML file, in `profiles/` or the caller's own: titles, texts and the order of parts. No law has code here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from evenhand import __version__
from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.findings import Findings, hash_of
from evenhand.report import reproduce
from evenhand.report.charts.drawing import drawable_labels
from evenhand.report.page import table
from evenhand.report.pages import READY, asset, document, rendered
from evenhand.report.table import readable
from evenhand.report.words import summary
from evenhand.report.words.sentences import headline_for
from evenhand.report.words.text import p_text, short_percent

PROFILES = resources.files("evenhand.report") / "profiles"

PARTS = ("question", "answer", "scope", "method", "limits", "numbers", "inputs", "reproduce", "fields", "text")
"""What a section of a template may show."""


@dataclass(frozen=True)
class Section:
    """One part of a template: its title, a text before it, and blanks to fill in."""

    part: str
    title: str
    text: str = ""
    fields: Sequence[str] = ()


@dataclass(frozen=True)
class Profile:
    """A template: what the page is called, whom it is for, what it does not say, and its sections."""

    title: str
    readers: str
    note: str
    sections: tuple[Section, ...]


def profile_names() -> list[str]:
    return sorted(entry.name.removesuffix(".toml") for entry in PROFILES.iterdir() if entry.name.endswith(".toml"))


def load_profile(name: str | Path) -> Profile:
    """A template of the package by its name, or of the caller by its path.

    >>> load_profile("record").title
    'Record of a measurement'
    """
    names = profile_names()
    if str(name) not in names and not str(name).endswith(".toml"):
        remedy = f"{suggestion(str(name), names)}Use one of {listing(names)}, or the path of a .toml file."
        raise EvenhandError(f"profile={str(name)!r} is not a template. {remedy}")
    place = PROFILES / f"{name}.toml" if str(name) in names else Path(name)
    try:
        data = tomllib.loads(place.read_text(encoding="utf-8"))
        sections = tuple(Section(**section) for section in data["sections"])
        profile = Profile(str(data["title"]), str(data.get("for", "")), str(data.get("note", "")), sections)
    except OSError as error:
        raise EvenhandError(f"{str(name)!r} cannot be read ({error.strerror}). Pass the path of a template.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        needs = "It needs a title, and [[sections]] with part and title; text and fields are optional."
        raise EvenhandError(f"{str(name)!r} is not a template: {error}. {needs}") from error
    if other := [section.part for section in sections if section.part not in PARTS]:
        raise EvenhandError(
            f"{str(name)!r} has the part {other[0]!r}. {suggestion(str(other[0]), PARTS)}Parts: {listing(PARTS)}."
        )
    return profile


def html(findings: Findings, name: str | Path) -> str:
    profile, findings = load_profile(name), drawable_labels(findings)
    headline = headline_for(findings)
    every = summary.key_sentences(findings, headline)
    answer = headline.text if headline else next(iter(every), "The result has no numbers.")
    tested = [[claim.text, p_text(claim.p_adjusted), "yes" if claim.made else "no"] for claim in findings.claims]
    limits = [*(line for _, line in summary.cautions(findings)), *summary.explained_notes(findings, summary.WARNINGS)]
    body = rendered(
        "record.html",
        profile=profile,
        question=findings.question,
        answer=answer,
        uncertainty=headline.uncertainty if headline else "",
        sentences=[line for line in every if line != answer],
        tests=table(["statement", "adjusted p", "statistically significant"], tested, "Tests") if tested else "",
        scope=_scope(findings),
        method=_method(findings),
        metric_cards=summary.cards(findings),
        limits=list(dict.fromkeys(limits)),
        numbers=table(*readable(findings), "All numbers"),
        inputs=_inputs(findings),
        origin=_origin(findings),
        ways=reproduce.ways(findings),
        version=__version__,
    )
    return document(f"{profile.title} · evenhand", asset("report.css"), [body], [READY])


def _scope(findings: Findings) -> dict[str, str]:
    """What the numbers are about: rows, population, columns by role, and what was left out."""
    facts, plan = findings.provenance, dict(findings.provenance.get("plan") or {})
    roles = {
        name: value
        for name, value in plan.items()
        if isinstance(value, (str, list)) and name not in ("audit", "metrics")
    }
    counts = {"population": facts.get("population"), "rows read": facts.get("rows"), "withheld": facts.get("withheld")}
    dropped = facts.get("dropped") or {}
    return {
        "data": " · ".join(summary.facts(findings)),
        **{name: summary.plain_text(value) for name, value in {**roles, **counts}.items() if value is not None},
        "rows left out": ", ".join(f"{many:,} ({why})" for why, many in dropped.items()) or "none",
    }


def _method(findings: Findings) -> dict[str, str]:
    facts = findings.provenance
    return {
        "audit": findings.audit.replace("_", " "),
        "confidence level": short_percent(float(facts["level"])) if "level" in facts else "",
        "intervals": str(facts.get("interval_for") or ""),
        "tests": "p-values are adjusted over all statements of this result (Holm)" if findings.claims else "",
        "chance level": summary.plain_text(facts.get("chance") or ""),
        "seed": str(facts.get("seed") if facts.get("seed") is not None else ""),
    }


def _inputs(findings: Findings) -> str:
    names = ("role", "name", "rows", "bytes", "sha256")
    entries = findings.provenance.get("inputs") or []
    rows = [["" if entry.get(name) is None else str(entry[name]) for name in names] for entry in entries]
    return table([*names[:-1], "SHA-256"], rows, "Inputs") if rows else ""


def _origin(findings: Findings) -> dict[str, str]:
    facts = findings.provenance
    return {
        "computed at": str(facts.get("computed_at") or ""),
        "versions": summary.plain_text(facts.get("versions") or ""),
        "plan": hash_of(findings),
    }
