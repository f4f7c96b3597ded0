"""Settings against their usual ranges, one row a parameter; and how a finding about a setting is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from trainlens.citations import DEEPSEEK_LLM, GPT3, TORCH_AMP, USUAL, Citation
from trainlens.detectors import _setup
from trainlens.diagnosis import Evidence, Finding, Severity
from trainlens.figures import number
from trainlens.model import Place, Run

_DETECTOR = "unusual-hyperparameter"
_LEAST_RATE = 1e-5  # from here on a rate is usual for some large model
_OTHER_RATES = ("muon", "sgd", "lion", "adafactor", "sophia", "shampoo", "soap", "lars", "lamb")


class Limits(Protocol):
    """The thresholds that are asked for here (see the detector's Options)."""

    @property
    def large(self) -> float: ...
    @property
    def batch_low(self) -> float: ...
    @property
    def batch_high(self) -> float: ...
    @property
    def rate(self) -> float: ...
    @property
    def decay_high(self) -> float: ...
    @property
    def clip_high(self) -> float: ...


def told(
    name: str,
    value: float,
    usual: str,
    why: str,
    source: Citation,
    *,
    place: Place | None = None,
    limit: float | None = None,
    option: str = "",
    severity: Severity = "info",
    confidence: float = 0.7,
    unit: str = "",
    metric: str | None = None,
    steps: tuple[int | None, int | None] = (None, None),
    expected: float | None = None,
) -> Finding:
    """The finding about one setting: its value, what is usual, where that comes from."""
    shown = number(value, unit)
    message = f"{name} is {shown}; {usual}{f', {why}' if why else ''} ({source.text})."
    title = f"{name.capitalize()} {shown}; {usual}"
    return Finding(
        detector=_DETECTOR,
        severity=severity,
        metric=metric,
        first_step=steps[0],
        last_step=steps[1],
        title=title if len(title) <= 60 else f"Unusual {name}: {shown}",
        message=message if len(message) <= 200 else f"{name} is {shown}; {usual} ({source.text})."[:200],
        confidence=confidence,
        evidence=(
            Evidence(
                name,
                metric,
                steps[0],
                steps[1],
                value,
                expected,
                limit,
                unit,
                f"{_DETECTOR}.{option}" if option else "",
                place=place,
            ),
        ),
        actions=(f"Look at {name} where it was set",),
    )


def unusual(run: Run, limits: Limits) -> Iterator[Finding]:
    weights = _setup.parameters(run)
    language = _setup.value_of(run, "length") is not None and _setup.value_of(run, "width") is not None
    if weights is not None and weights >= limits.large and language and not _setup.begun_from_weights(run):
        yield from _of_a_language_model(run, weights, limits)
    yield from _optimizer(run, limits)
    yield from _precision(run, weights)


def _of_a_language_model(run: Run, weights: float, limits: Limits) -> Iterator[Finding]:
    """What is asked of a language model that is trained from scratch."""
    batch, length = _setup.batch(run), _setup.stated(run, "length")
    if batch and length and weights >= 1e9:
        tokens = batch * length.value
        if not limits.batch_low <= tokens <= limits.batch_high:
            low = tokens < limits.batch_low
            yield told(
                "global batch",
                tokens,
                "1 to 4 M tokens are usual",
                "",
                GPT3,
                place=length.fact.place,
                unit="tokens",
                limit=limits.batch_low if low else limits.batch_high,
                option="batch_low" if low else "batch_high",
            )
        if length.value < 512:
            yield told("sequence length", length.value, "2,048 and more is usual", "", USUAL, place=length.fact.place)
    rate, optimizer = _setup.stated(run, "rate"), _setup.word_of(run, "optimizer")
    if rate is not None and not any(word in optimizer for word in _OTHER_RATES):
        usual = 6e-4 * (max(weights, 1.25e8) / 1.25e8) ** -0.32  # 6e-4 at 125 M to 0.6e-4 at 175 G weights
        high = rate.value > limits.rate * usual
        if high or rate.value < min(_LEAST_RATE, usual / limits.rate):
            yield told(
                "learning rate",
                rate.value,
                f"about {number(usual)} is usual for {number(weights)} weights",
                "",
                GPT3,
                place=rate.fact.place,
                expected=usual,
                limit=usual * limits.rate if high else min(_LEAST_RATE, usual / limits.rate),
                option="rate",
            )
    clips = [fact for fact in _setup.facts_of(run, "clip") if isinstance(fact.value, int | float)]
    if clips and not isinstance(clips[0].value, bool) and float(clips[0].value) <= 0:
        yield told(
            "gradient clipping",
            float(clips[0].value),
            "1 is usual, a must for large models",
            "",
            USUAL,
            place=clips[0].place,
            confidence=0.8,
        )
    decays = [fact for fact in _setup.facts_of(run, "weight decay") if isinstance(fact.value, int | float)]
    if decays and float(decays[0].value) == 0 and (not optimizer or "adam" in optimizer):
        yield told("weight decay", 0.0, "0.01 to 0.1 is usual", "", USUAL, place=decays[0].place)


def _optimizer(run: Run, limits: Limits) -> Iterator[Finding]:
    decay, clip = _setup.stated(run, "weight decay"), _setup.stated(run, "clip")
    if decay and decay.value > limits.decay_high:
        yield told(
            "weight decay",
            decay.value,
            "0.01 to 0.1 is usual",
            "",
            USUAL,
            place=decay.fact.place,
            limit=limits.decay_high,
            option="decay_high",
        )
    if clip and clip.value > limits.clip_high:
        yield told(
            "gradient clipping",
            clip.value,
            "1 is usual",
            "this hardly clips",
            USUAL,
            place=clip.fact.place,
            limit=limits.clip_high,
            option="clip_high",
        )
    for name, low, high, usual in (
        ("beta1", 0.5, 0.98, "0.9 is usual"),
        ("beta2", 0.9, 0.9999, "0.95 to 0.999 is usual"),
        ("epsilon", 1e-16, 1e-4, "1e-8 is usual"),
    ):
        found = _setup.stated(run, name)
        if found and not low <= found.value <= high:
            yield told(
                name, found.value, usual, "", USUAL, place=found.fact.place, limit=low if found.value < low else high
            )
    peak, least = _setup.stated(run, "rate"), _setup.stated(run, "least rate")
    share = peak is not None and least is not None and least.value > 10 * peak.value  # of the peak, as some write it
    decays = _setup.word_of(run, "style") not in ("", "constant")
    if peak and least and not share and decays and least.value > 0.5 * peak.value:
        above = least.value > peak.value
        yield told(
            "least learning rate",
            least.value,
            f"a tenth of the peak of {number(peak.value)} is usual",
            "it lies above the peak" if above else "",
            DEEPSEEK_LLM,
            place=least.fact.place,
            expected=peak.value / 10,
            severity="warning" if above else "info",
        )


def _precision(run: Run, weights: float | None) -> Iterator[Finding]:
    precision, scale = _setup.precision(run), _setup.stated(run, "scale")
    logged = run.get("loss_scale")
    unscaled = scale is not None and scale.value == 1.0
    if logged is not None and logged.finite.sum() >= 20:
        unscaled = bool((logged.value[logged.finite] == 1.0).all())
    if precision == "fp16" and unscaled:
        yield told(
            "loss scale",
            1.0,
            "half precision needs a dynamic one",
            "small gradients become zero",
            TORCH_AMP,
            place=scale.fact.place if scale else None,
            severity="warning",
            confidence=0.85,
        )
    if _setup.is_on(run, "fp16") and _setup.is_on(run, "bf16"):
        fact = run.fact("fp16")
        yield told(
            "precision", 2, "one of fp16 and bf16 is usual", "both are on", USUAL, place=fact.place if fact else None
        )
    if precision == "fp32" and weights is not None and weights >= 1e9:
        fact = run.fact("precision", "params_dtype", "mixed_precision", "torch_dtype", "dtype")
        yield told(
            "precision",
            32,
            "bf16 is usual for large models",
            "",
            USUAL,
            place=fact.place if fact else None,
            unit="bits",
        )
