"""Arithmetic without rounding: fractions, and logarithms and roots to sixty digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

DIGITS = 60
SHOWN = 40
"""Digits computed with, and digits printed of what is no fraction."""


class Undefined(Exception):
    """The quantity does not exist for this input; the code says why."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


def frac(x):
    """A number as it is written: 0.1 is one tenth, "1/3" a third."""
    return x if isinstance(x, Fraction) else Fraction(str(x))


def fracs(xs):
    return [frac(x) for x in xs]


def dec(x):
    """A fraction as a decimal; a decimal stays."""
    return (
        x
        if isinstance(x, Decimal)
        else Decimal(x.numerator) / Decimal(x.denominator)
        if isinstance(x, Fraction)
        else Decimal(x)
    )


def ln(x):
    return Fraction(0) if x == 1 else dec(x).ln()


def log2(x):
    """Exact where it is whole, so that a fraction over it stays one."""
    x = frac(x) if not isinstance(x, Decimal) else x
    if isinstance(x, Fraction) and x > 0:
        top, bottom = x.numerator, x.denominator
        if top & (top - 1) == 0 and bottom & (bottom - 1) == 0:
            return Fraction(top.bit_length() - bottom.bit_length())
    return dec(x).ln() / Decimal(2).ln()


def root(x):
    """The square root, a fraction where it is one."""
    if isinstance(x, Fraction):
        top, bottom = math.isqrt(x.numerator), math.isqrt(x.denominator)
        if top * top == x.numerator and bottom * bottom == x.denominator:
            return Fraction(top, bottom)
    return dec(x).sqrt()


def power(x, exponent):
    """x to a power, a fraction where the power is whole."""
    if isinstance(x, Fraction) and exponent.denominator == 1:
        return x**exponent.numerator
    if isinstance(x, Fraction) and exponent == Fraction(1, 2):
        return root(x)
    return Decimal(0) if x == 0 else (dec(exponent) * dec(ln(x))).exp()


def add(terms):
    """The sum, exact while all terms are fractions."""
    terms = list(terms)
    if all(isinstance(t, (int, Fraction)) for t in terms):
        return sum(terms, Fraction(0))
    return sum((dec(t) for t in terms), Decimal(0))


def times(*factors):
    if all(isinstance(f, (int, Fraction)) for f in factors):
        return math.prod(factors, start=Fraction(1))
    return math.prod((dec(f) for f in factors), start=Decimal(1))


def over(a, b):
    """a / b, exact where both are fractions."""
    if all(isinstance(x, (int, Fraction)) for x in (a, b)):
        return Fraction(a) / Fraction(b)
    return dec(a) / dec(b)


def minus(a, b):
    return add([a, times(-1, b)])


def written(value):
    """A value as the vectors hold it: the nearest float, and the exact text."""
    if isinstance(value, float):
        return {"value": "inf" if value > 0 else "-inf", "exact": "infinity" if value > 0 else "-infinity"}
    if isinstance(value, Fraction):
        return {"value": float(value), "exact": str(value)}
    with localcontext(prec=SHOWN):
        if abs(value) < Decimal(10) ** (5 - DIGITS):  # nothing but the rounding of sixty digits
            return {"value": 0.0, "exact": "0"}
        return {"value": float(value), "exact": format((+value).normalize(), "f")}
