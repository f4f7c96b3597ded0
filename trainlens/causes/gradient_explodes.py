"""Why a gradient explodes: learning rate, samples, overflow, hardware.

The tests are those of an exploding loss, but for the gradient itself, which is here what is to be explained.
"""

from __future__ import annotations

from trainlens.causes._explosion import bad_samples, hardware, learning_rate, overflow

EXPLAINS = ("gradient-explosion", "gradient-spike")
CAUSES = (learning_rate, bad_samples, overflow, hardware)
