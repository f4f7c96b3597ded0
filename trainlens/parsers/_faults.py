"""The places of a kind of fault as a checkpoint keeps them: the first and how many, so that one note can tell all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast


def kept(places: Sequence[int]) -> list[int]:
    """The first place and the count; empty where there is none."""
    return [places[0], len(places)] if places else []


def restored(state: object) -> list[int]:
    """As many places as were kept; only the first is known, and stands for all."""
    first_and_count = cast(Sequence[int], state or ())
    return [first_and_count[0]] * first_and_count[1] if first_and_count else []
