"""Every deliberate error and warning, and the words they share with other texts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_LONG_QUOTE = re.compile(r"(['\"])((?:(?!\1).){200})(?:(?!\1).)+\1", re.DOTALL)
_LONG_WORD = re.compile(r"\S{4097,}")  # longer than a path can be
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Text with control characters and marks that turn its direction made visible, so that labels stay distinct.

    >>> printable("a\x1b[31mb\x07\u202ec")
    'a␛[31mb␇\\u202ec'
    """
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    """The picture that Unicode has for a control character (U+2400 and on), or the number of the character."""
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else f"\\u{code:04x}"


def on_one_line(text: str) -> str:
    r"""Text without control characters and line ends, for titles that a chart puts into expressions.

    >>> on_one_line("new\nline")
    'new␤line'
    """
    return printable(text).replace("\n", "\u2424").replace("\t", " ")


def unprintable_escaped(text: str) -> str:
    """JSON with control characters as escapes, so that no terminal obeys them."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_PLACE = r"\b[a-z][a-z0-9+.-]+:/{1,2}"  # a path as Python knows it has one of them
_NAME = (
    r"(?:token|secret|passw(?:or)?d|passphrase|passcode|pwd|credentials?|signature|authentication|authorization"
    r"|(?<![a-z])(?:pass|sig|sas|auth|cookie)|(?:access|account|api|private|secret|shared|storage|[_.-])[_.-]?key)(?![a-z])[\w.-]{0,100}"
)  # no compass and no turkey; repeats have a bound, since text of thousands of dashes would take minutes
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|\S+?(?=['\"]?[.,:)\]}]*(?:\s|$)))"  # in quotes, or up to the next space
_KEYS = (
    r"(\b(?:bearer|basic)\s+)(?=\S*\d)[\w.~+/=-]{8,}",
    rf"((?!abfss?:/){_PLACE})\S*@",  # what stands there before an @ is a container; a password may hold quotes
    rf"({_PLACE})[^\s/]*:[^\n@]*@",  # or spaces
    rf"({_PLACE}[^\s'\"?#]*)[?#][^\s'\"]*",
    r"()(?<![\w:/\\.-])(?![a-z][a-z0-9+.-]*:[\\/]|tally:|trec-fair:)[^\s:'\"=/@(){}\[\],]+:[^\s@](?:\S*[^\s@])?@(?=\[|[a-z]|\d+\.\d)",
    rf"({_NAME}['\"]?\s?[=:]>?\s?){_VALUE}",
    rf"(--?[\w.-]{{0,40}}?{_NAME}\s+)(?!-){_VALUE}",
)
"""Where keys stand: in a header, before the name of a place (the fifth: `me:pw@host`), behind a question mark or a hash, in an
assignment by its name."""


def without_keys(text: str) -> str:
    """Text in which no address holds a password, a token or a signature.

    >>> without_keys("'s3://me:pw@bucket/x.csv' and gs://b/x#pw and md:db?motherduck_token=pw")
    "'s3://...bucket/x.csv' and gs://b/x... and md:db?motherduck_token=..."
    """
    for pattern in _KEYS:
        text = re.sub(pattern, r"\1...", text, flags=re.IGNORECASE)
    return text


def refuse_keys(role: str, *words: object) -> None:
    """Raise where an address holds credentials.

    They are not repeated: what is typed ends up in plans, reports and messages.
    """
    for word in words:
        if isinstance(word, str) and len(word) <= 4096 and without_keys(word) != word:  # no path is longer
            raise EvenhandError(
                f"{role} has a path with credentials or a query in it. Leave them out, and set them in the environment instead."
            )


_WRAPPED = re.compile(r"\b(?:np\.\w+|Decimal|Timestamp)\(('[^']*'|[-\w.+]+)\)")
_DATES = re.compile(r"\bdatetime\.date(?:time)?\((\d+), (\d+), (\d+)(?:, (\d+), (\d+)(?:, (\d+))?)?[^()]*\)")


def plain_labels(text: str) -> str:
    """Text in which dates and numbers read as they do in a file, not as Python code.

    >>> plain_labels("by=datetime.date(2026, 11, 1) and np.float64(0.5), Decimal('1.0')")
    "by=2026-11-01 and 0.5, '1.0'"
    """

    def in_iso(match: re.Match[str]) -> str:
        day = "-".join(f"{int(part):02}" for part in match.groups()[:3])
        clock = ":".join(f"{int(part):02}" for part in match.groups()[3:] if part)
        return f"{day} {clock}".strip()

    return _WRAPPED.sub(r"\1", _DATES.sub(in_iso, text))


def _in_short(message: str) -> str:
    """A message without credentials and Python code, whose long words and quotations are cut."""
    message = without_keys(_LONG_WORD.sub(_cut_word, printable(message)))
    return _LONG_QUOTE.sub(r"\1\2...\1", plain_labels(message))


def _cut_word(match: re.Match[str]) -> str:
    """The start of a word that is longer than any path; nothing of it where it may hold credentials."""
    return (
        "..."
        if "@" in match[0]
        else match[0][:200] + "..." + match[0][-1:].strip("abcdefghijklmnopqrstuvwxyz0123456789-.")
    )


class EvenhandError(ValueError):
    """Bad input or a bad call: one sentence of fact, one of remedy."""

    def __init__(self, message: str = "") -> None:
        super().__init__(_in_short(str(message)))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: the message alone."""
        return [f"{type(self).__name__}: {self}"]


class MissingExtraError(EvenhandError, ImportError):
    """A package that only some need is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed. Install it with: pip install 'evenhand[{extra}]'.")


class UndefinedWarning(UserWarning):
    """The input is well formed but the quantity does not exist for it; `reason` is the code of the formula book."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(_in_short(message))
        self.reason = reason


class DataWarning(UserWarning):
    """Something was done to the data that the reader of a number should know."""

    def __init__(self, message: str) -> None:
        super().__init__(_in_short(message))


def listing(names: Iterable[object], most: int = 10) -> str:
    """Names in one line, never more than `most` of them.

    >>> listing(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    all_names = [_cut(printable(str(name))) for name in names]
    shown = ", ".join(all_names[:most])
    rest = len(all_names) - most
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _cut(name: str, most: int = 80) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def suggestion(typed: str, choices: Iterable[str]) -> str:
    """The nearest known name as a question, or nothing.

    >>> suggestion("ginni", ["gini", "hoover"])
    "Did you mean 'gini'? "
    """
    names = list(choices)
    folded = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(typed, names, n=1, cutoff=0.5)
    close = close or [folded[c] for c in difflib.get_close_matches(typed.lower(), list(folded), n=1, cutoff=0.5)]
    return f"Did you mean {_cut(close[0])!r}? " if close else ""


def unknown_name(role: str, typed: str, choices: Sequence[str], *, what: str) -> EvenhandError:
    """An error for a name that is not one of `known`: what was typed, the nearest, and the rest."""
    return EvenhandError(f"{role}={typed!r} is not {what}. {suggestion(typed, choices)}Known: {listing(choices, 40)}.")


def refuse_problems(problems: Sequence[str], *, where: str = "") -> None:
    """Raise every problem of a table in one error; nothing where there is none."""
    if problems:
        raise all_problems(problems, where=where)


def all_problems(problems: Sequence[str], *, where: str = "") -> EvenhandError:
    """One error that reports every problem of a table at once."""
    if len(problems) == 1:
        return EvenhandError(problems[0])
    lines = "\n".join(f"  - {problem}" for problem in problems[:10])
    return EvenhandError(f"{where or 'The input'} has {len(problems)} problems:\n{lines}")


def singular(unit: str) -> str:
    return re.sub(r"[_ ]?(id|key|uuid)$", "", unit, flags=re.IGNORECASE).replace("_", " ").strip() or "unit"


def plural(unit: str) -> str:
    """The noun for several units, from a column name.

    >>> plural("author_id"), plural("query"), plural("units"), plural("search")
    ('authors', 'queries', 'units', 'searches')
    """
    noun = singular(unit)
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    if noun.endswith(("ch", "sh", "x", "z", "ss")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"
