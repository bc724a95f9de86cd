"""Bytes of text files: unpacked, in UTF-8, with lines and quotes that DuckDB reads right."""

from __future__ import annotations

import codecs
import gzip
import io
import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.errors import EvenhandError
from evenhand.sources.folders import lasting

FIRST_BYTES = 1 << 16
"""How much of a file is looked at before an engine reads it."""

LONGEST_LINE = 16 << 20
"""Bytes that a line of text or a JSON object may have: a packed file of half a megabyte can hold a field of half a gigabyte."""

PACKED = ".gz"
"""What may stand after the ending of text."""


def opened_bytes(path: str) -> Any:
    """A file for reading, unpacked where its ending says that it is packed."""
    return gzip.open(path, "rb") if path.endswith(PACKED) else Path(path).open("rb")


def stray_quote(path: str) -> EvenhandError:
    return EvenhandError(
        f"{path!r} has a quote that is never closed, or one inside a field. Put quotes around the whole field and "
        "write each quote inside it twice."
    )


UTF8 = ("ascii", "utf-8", "utf-8-sig")
"""Encodings that DuckDB reads; text is ASCII as far as somebody looked."""


def readable_text(path: str, delimiter: str, encoding: str, skipped: int) -> tuple[str, bool, str]:
    """A file that DuckDB reads right (itself, or a copy without the skipped lines), whether it has quotes, its encoding."""
    try:
        file = path if encoding in UTF8 else _as_utf8(path, encoding)
        return *check_text(file, delimiter, skipped), encoding
    except UnicodeDecodeError:
        if encoding != "ascii":
            raise
        encoding = "windows-1252"  # of letters that come late
        return *check_text(_as_utf8(path, encoding), delimiter, skipped), encoding


def _as_utf8(path: str, encoding: str) -> str:
    """The path of a copy in UTF-8."""
    copy = lasting() / Path(path).name.removesuffix(PACKED)
    reading = io.TextIOWrapper(opened_bytes(path), encoding=encoding, newline="")
    with reading as handle, copy.open("w", encoding="utf-8", newline="") as written:
        shutil.copyfileobj(handle, written)
    return str(copy)


def check_text(path: str, delimiter: str, skipped: int = 0) -> tuple[str, bool]:
    """A file in UTF-8 that DuckDB reads right (itself, or a tidied copy), and whether it has quotes.

    DuckDB drops what follows a quote that is never closed without a word, and refuses lines that end in several ways.
    """
    quotes, bytes_at_once, length = _QuoteCheck(delimiter), 1 << 23, 0
    ends = {b"\n": 0, b"\r": 0, b"\r\n": 0}
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened_bytes(path) as handle:
        chunk = handle.read(bytes_at_once).removeprefix(codecs.BOM_UTF8)
        is_late = chunk[:1] in (b"\n", b"\r")  # DuckDB takes the first line for the header, whatever is in it
        while chunk:
            following = handle.read(bytes_at_once)
            if not chunk.isascii() or decoder.getstate()[0]:
                decoder.decode(chunk, final=not following)
            outside = quotes.outside(chunk, following[:1] or b"\n")
            if outside is None:
                raise stray_quote(path)
            length = 0 if b"\n" in outside or b"\r" in outside else length + len(chunk)
            if length > LONGEST_LINE:
                raise EvenhandError(
                    f"{path!r} has a line of more than {LONGEST_LINE >> 20} MB. Shorten that field, or leave its column out."
                )
            for end in ends:
                ends[end] += (outside + following[:1]).count(end) if end == b"\r\n" else outside.count(end)
            chunk = following
    if quotes.is_open:
        raise stray_quote(path)
    has_both = 0 < ends[b"\r\n"] < ends[b"\n"] and ends[b"\r\n"] == ends[b"\r"]
    return _tidied(path, skipped) if has_both or is_late or skipped else path, quotes.has_quotes


def _tidied(path: str, skipped: int) -> str:
    """The path of a copy whose lines end alike, and that begins with its header, below the skipped lines."""
    copy = lasting() / Path(path).name.removesuffix(PACKED)
    with opened_bytes(path) as handle, copy.open("wb") as written:
        has_begun = is_quoted = False
        for line in itertools.islice(handle, skipped, None):
            has_begun = has_begun or bool(line.removeprefix(codecs.BOM_UTF8).strip(b"\r\n"))
            is_quoted ^= bool(line.count(b'"') % 2)
            if has_begun:
                written.write(line[:-2] + b"\n" if line.endswith(b"\r\n") and not is_quoted else line)
    return str(copy)


class _QuoteCheck:
    """Whether each quote of a text begins or ends a field, or is written twice inside one."""

    def __init__(self, delimiter: str) -> None:
        self.is_open = self.has_quotes = False
        self._edges = np.zeros(256, dtype=bool)
        self._edges[list(b'"\r\n' + delimiter.encode())] = True
        self._before = ord("\n")

    def outside(self, chunk: bytes, following: bytes) -> bytes | None:
        """The unquoted bytes of the next chunk; None where a quote is misplaced."""
        unquoted = b"" if self.is_open else chunk
        if b'"' in chunk:
            self.has_quotes = True
            letters = np.frombuffer(chunk + following, dtype=np.uint8)
            is_quote = letters[:-1] == ord('"')
            at = np.flatnonzero(is_quote)
            before = np.where(at > 0, letters[at - 1], self._before)
            opens = (np.arange(len(at)) + self.is_open) % 2 == 0
            if not self._edges[np.where(opens, before, letters[at + 1])].all():
                return None
            if b"\r" in chunk:
                inside = (np.cumsum(is_quote, dtype=np.uint8) + np.uint8(self.is_open)) % 2
                unquoted = letters[:-1][inside == 0].tobytes()
            self.is_open ^= bool(len(at) % 2)
        self._before = chunk[-1]
        return unquoted
