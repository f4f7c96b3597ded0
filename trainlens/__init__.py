"""trainlens reads everything a training run wrote and says what went wrong."""

from __future__ import annotations

__version__ = "0.1.0"
