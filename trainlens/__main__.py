"""`trainlens` and `python -m trainlens`: the one place where an error becomes a message and an exit status."""

from __future__ import annotations

import gc
import sys

from trainlens.errors import TrainlensError
from trainlens.exits import REFUSED


def main() -> None:
    from trainlens.cli import app

    gc.set_threshold(200_000, 10, 100)  # imports and charts make objects by the million, and drop few
    try:
        app()
    except TrainlensError as problem:
        # A file's name may hold what would steer the terminal.
        told = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(problem))
        sys.stderr.write(f"trainlens: {told}\n")
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
