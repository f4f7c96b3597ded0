"""Why a loss explodes: learning rate, samples, gradients, overflow, hardware.

Each test looks at the step where the finding began. *Learning rate too large*: the run had not carried this rate for
long. *Gradient explosion*: the norm left its band at or before the onset. *Numeric overflow*: the loss scale fell to a
quarter, overflows are logged, or the norm was infinite. *Hardware fault*: Xid or ECC lines. *Bad samples* cannot be
proved from a curve: it stays not measured, and an epoch that began just before is named.
"""

from __future__ import annotations

from trainlens.causes._explosion import bad_samples, gradient, hardware, learning_rate, overflow

EXPLAINS = ("loss-divergence", "loss-spike", "loss-shift", "non-finite-value")
CAUSES = (learning_rate, gradient, bad_samples, overflow, hardware)
