"""Property tests draw the same examples each time, and take as long as they need.

`--hypothesis-profile=wander` draws others.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("wander", deadline=None)
settings.load_profile("steady")
