"""A page for the file: question, answer, scope, method, limits, hashes, sign-off, in the order of a template.

A template is a TOML file, in `profiles/` or the caller's own: titles, texts and the order of parts. No law has code here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from evenhand import __version__
from evenhand.errors import EvenhandError, listing, suggestion
from evenhand.findings import Findings, hash_of
from evenhand.report import page, reproduce
from evenhand.report import table as tables
from evenhand.report.charts.drawing import drawable_labels
from evenhand.report.pages import asset, document, script
from evenhand.report.words import summary
from evenhand.report.words.sentences import headline_for
from evenhand.report.words.text import p_text, short_percent

PROFILES = resources.files("evenhand.report") / "profiles"

STYLE = """
.page { display: block; max-width: 60rem; } .record h1 { font-size: 1.9rem; color: var(--ink); margin: 1rem 0 .3rem; }
.fields td { height: 2.2rem; } .fields td:first-child { width: 40%; } .fields td + td { border-bottom: 1px solid var(--muted); }
.record h2 { counter-increment: part; } .record h2::before { content: counter(part) ". "; } .record { counter-reset: part; }
.record .scroll { max-height: none; } .hash { font-family: monospace; overflow-wrap: anywhere; }
@media print { section { break-inside: avoid-page; } }
"""


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
    body = [
        f'<div class="page"><main class="record"><header><h1>{escape(profile.title)}</h1>',
        f'<p class="lede">{escape(profile.readers)}</p><p class="note">{escape(profile.note)}</p></header>',
        *(_section(findings, section) for section in profile.sections),
        "</main></div>",
        f'<footer class="made">Made by evenhand {escape(__version__)}. This page is self-contained and makes no network '
        "requests.</footer>",
    ]
    ready = script("document.body.dataset.ready = '';")
    return document(f"{profile.title} · evenhand", asset("report.css") + STYLE, body, [ready])


def _section(findings: Findings, section: Section) -> str:
    text = f"<p>{escape(section.text)}</p>" if section.text else ""
    blanks = "".join(f"<tr><td>{escape(field)}</td><td></td></tr>" for field in section.fields)
    fields = f'<table class="fields"><tbody>{blanks}</tbody></table>' if blanks else ""
    return f"<section><h2>{escape(section.title)}</h2>{text}{PARTS[section.part](findings)}{fields}</section>"


def _answer(findings: Findings) -> str:
    headline = headline_for(findings)
    every = summary.key_sentences(findings, headline)
    lead = headline.text if headline else next(iter(every), "The result has no numbers.")
    sure = f'<p class="interval">{escape(headline.uncertainty)}.</p>' if headline and headline.uncertainty else ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in every if line != lead)
    tested = [[claim.text, p_text(claim.p_adjusted), "yes" if claim.made else "no"] for claim in findings.claims]
    head = ["statement", "adjusted p", "statistically significant"]
    claims = f"<h3>Everything that was tested</h3>{page.table(head, tested, 'Tests')}" if tested else ""
    return f'<p class="verdict">{escape(lead)}</p>{sure}<ul>{lines}</ul>{claims}'


def _scope(findings: Findings) -> str:
    """What the numbers are about: rows, population, columns by role, and what was left out."""
    plan = dict(findings.provenance.get("plan") or {})
    roles = {
        name: plan[name] for name in plan if isinstance(plan[name], (str, list)) and name not in ("audit", "metrics")
    }
    facts = {"data": " · ".join(summary.facts(findings)), **{name: _text(value) for name, value in roles.items()}}
    for name in ("population", "rows", "withheld"):
        if findings.provenance.get(name) is not None:
            facts[{"rows": "rows read"}.get(name, name)] = _text(findings.provenance[name])
    dropped = findings.provenance.get("dropped") or {}
    facts["rows left out"] = ", ".join(f"{many:,} ({why})" for why, many in dropped.items()) or "none"
    return _terms(facts)


def _method(findings: Findings) -> str:
    cards = "".join(
        f"<h3>{escape(card.title)}</h3><p>{escape(card.asks)}</p>{_terms(card.terms)}"
        for card in summary.cards(findings)
    )
    facts = findings.provenance
    terms = {
        "audit": findings.audit.replace("_", " "),
        "confidence level": short_percent(float(facts["level"])) if "level" in facts else "",
        "intervals": str(facts.get("interval_for") or ""),
        "tests": "p-values are adjusted over all statements of this result (Holm)" if findings.claims else "",
        "chance level": _text(facts.get("chance") or ""),
        "seed": str(facts.get("seed") if facts.get("seed") is not None else ""),
    }
    return _terms(terms) + cards


def _limits(findings: Findings) -> str:
    lines = [*(line for _, line in summary.cautions(findings)), *summary.explained_notes(findings, summary.WARNINGS)]
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in dict.fromkeys(lines)) + "</ul>" if lines else ""


def _inputs(findings: Findings) -> str:
    facts = findings.provenance
    listed = ""
    for entry in facts.get("inputs") or []:
        cells = [str(entry[name]) if entry.get(name) is not None else "" for name in ("role", "name", "rows", "bytes")]
        marked = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        listed += f"<tr>{marked}<td class=hash>{escape(str(entry.get('sha256') or ''))}</td></tr>"
    head = "".join(f"<th>{name}</th>" for name in ("role", "name", "rows", "bytes", "SHA-256"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{listed}</tbody></table>" if listed else ""
    terms = {
        "computed at": str(facts.get("computed_at") or ""),
        "versions": _text(facts.get("versions") or ""),
        "plan": hash_of(findings),
    }
    return table + _terms(terms)


def _reproduce(findings: Findings) -> str:
    ways = "".join(f"<p>{escape(intro)}</p><pre>{escape(text)}</pre>" for intro, text in reproduce.ways(findings))
    return f"{ways}<p>To check a saved result against its inputs:</p><pre>evenhand verify result.json</pre>"


def _terms(terms: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms.items() if text)
    return f'<dl class="facts">{rows}</dl>' if rows else ""


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return listing(map(_text, value), 40)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


PARTS: Mapping[str, Callable[[Findings], str]] = {
    "question": lambda findings: f'<p class="verdict">{escape(findings.question)}</p>', "answer": _answer, "scope": _scope,
    "method": _method, "limits": _limits, "numbers": lambda findings: page.table(*tables.readable(findings), "All numbers"),
    "inputs": _inputs, "reproduce": _reproduce, "fields": lambda _: "", "text": lambda _: "",
}  # fmt: skip
"""What a section of a template may show."""
