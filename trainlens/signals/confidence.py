"""How sure a finding is, as a share: of findings that say 0.9, at least nine in ten are right.

A detector's gate is set where pure chance hardly reaches, so what just passes it is right more often than not, and the
further beyond, the surer. A finding that passed several gates is as sure as the one it passed most narrowly.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# Of 90 findings of 783 labelled and generated runs that just passed their gate, 87 were right: 0.7 is careful.
AT_LIMIT = 0.7
MOST = 0.99  # nothing that is computed is certain


def surely(observed: float, limit: float) -> float:
    """From how far a measure lies beyond its limit: 0.7 at the limit, 0.92 at twice, 0.98 at four times."""
    if not math.isfinite(observed) or limit <= 0:
        return MOST
    return round(min(MOST, 1 - (1 - AT_LIMIT) * (limit / max(observed, limit)) ** 2), 2)


def surely_below(observed: float, limit: float) -> float:
    """From how far a measure lies below its limit, as a share of the limit: 0.7 at the limit, 0.99 at zero."""
    if not math.isfinite(observed) or limit <= 0:
        return AT_LIMIT
    return round(min(MOST, 1 - (1 - AT_LIMIT) * (min(max(observed, 0.0), limit) / limit) ** 2), 2)


def share_beyond(beyond: NDArray[np.bool_], first: int, last: int) -> float:
    """Of a stretch: the share of its points that are beyond the bound, at most 0.99."""
    return round(min(MOST, float(np.mean(beyond[first : last + 1]))), 2)
