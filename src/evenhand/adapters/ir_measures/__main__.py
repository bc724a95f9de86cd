"""`python -m evenhand.adapters.ir_measures qrels run AWRF@10 nDCG@10`: ir_measures' own command, with our measures."""

from __future__ import annotations

import importlib
import sys
import warnings


def main() -> int:
    """Exit code of ir_measures' command; 2 for bad input, in a sentence and without a traceback."""
    from evenhand.errors import EvenhandError, UndefinedWarning

    warnings.simplefilter("always", UndefinedWarning)
    warnings.showwarning = lambda message, *_, **__: print(message, file=sys.stderr)
    sys.argv[0] = "python -m evenhand.adapters.ir_measures"
    try:
        importlib.import_module("evenhand.adapters.ir_measures")  # first: it registers, or says what to install
        importlib.import_module("ir_measures.__main__").main_cli()
    except EvenhandError as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
