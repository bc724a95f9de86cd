"""The terminal: failed writes are errors, engines cannot print, and text is coloured where it is not piped."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import TextIO

from evenhand.errors import EvenhandError


class Answer(io.TextIOBase):
    """Standard output; a closed pipe is fine, a full disk or a closed output is an error."""

    def __init__(self, out: TextIO | None) -> None:
        super().__init__()
        self.out = out
        self.gone = False

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.out is not None and self.out.isatty()

    def write(self, text: str) -> int:
        if self.out is None:
            raise EvenhandError("Standard output is closed. Open it, or write to a file with --output.")
        with self._errors_in_words():
            if not self.gone:
                self.out.write(text)
        return len(text)

    def flush(self) -> None:
        with self._errors_in_words():
            if self.out is not None and not self.gone:
                self.out.flush()

    @contextlib.contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._give_up()
        except OSError as error:
            self._give_up()
            raise EvenhandError(
                f"Standard output cannot be written ({error.strerror}). Make room, or write to a file with --output."
            ) from error

    def _give_up(self) -> None:
        """Write nothing more; what is left in the buffer must not fail when the process ends."""
        self.gone = True
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.out.fileno())  # type: ignore[union-attr]


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Standard output as an `Answer`, and standard error for evenhand's messages only.

    Engines in other languages write to file descriptor 2 themselves (a panic of Rust fills a screen): while a command runs,
    that descriptor leads to /dev/null, and `sys.stderr` to where it led before.
    """
    out, err = sys.stdout, sys.stderr
    answer = Answer(out)
    messages: TextIO | None = None
    sys.stdout = answer
    try:
        if err is None:
            sys.stderr = messages = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        elif _is_descriptor_2(err):
            err.flush()
            messages = os.fdopen(os.dup(2), "w", buffering=1, encoding=err.encoding, errors="backslashreplace")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            sys.stderr = messages
        yield
    finally:
        sys.stdout, sys.stderr = out, err
        if messages is not None:
            with contextlib.suppress(OSError):
                messages.flush()
            if err is not None:
                os.dup2(messages.fileno(), 2)
            messages.close()


def _is_descriptor_2(stream: TextIO) -> bool:
    try:
        return stream.fileno() == 2
    except (OSError, ValueError, AttributeError):
        return False


BOLD, DIM, RED, GREEN = "1", "2", "31", "32"

_RULE = re.compile(r"-+(  -+)*")


def shows(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal with colour and NO_COLOR (no-color.org) is not set."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM", "") == "dumb":
        return False
    return stream.isatty()


def painted(text: str, style: str, stream: TextIO | None) -> str:
    return f"\033[{style}m{text}\033[0m" if shows(stream) else text


def coloured_table(text: str, stream: TextIO | None) -> str:
    """A text table with bold question and headers, and dimmed notes below."""
    if not shows(stream):
        return text
    lines = text.split("\n")
    rules = [i for i, line in enumerate(lines) if _RULE.fullmatch(line)]
    if not rules:
        return text
    styles = {0: BOLD} | {i - 1: BOLD for i in rules} | dict.fromkeys(rules, DIM)
    below = next((i for i in range(rules[-1], len(lines)) if not lines[i]), len(lines))
    styles |= dict.fromkeys(range(below, len(lines)), DIM)
    return "\n".join(painted(line, styles[i], stream) if i in styles and line else line for i, line in enumerate(lines))


def coloured_checks(text: str, stream: TextIO | None) -> str:
    """Checks, a line each: passed in green, failed in red."""
    style = {"pass": GREEN, "FAIL": f"{BOLD};{RED}"}
    return "\n".join(
        re.sub(r"^(pass|FAIL)\b", lambda word: painted(word[0], style[word[0]], stream), line)
        for line in text.split("\n")
    )
