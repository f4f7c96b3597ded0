"""What stands where in the HTML page and the PNG sheet: the panels with their charts, and the eight numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trainlens.diagnosis import Curve, Finding, MetricReport, RunDiagnosis
from trainlens.figures import NBSP, figures, seconds
from trainlens.reports._drawings import Drawing, bare, draw
from trainlens.reports._ranks import has_ranks, layers
from trainlens.reports._words import Card, cards

MOST_OTHERS = 12  # charts of metrics the catalogue does not know


@dataclass(frozen=True)
class Slot:
    """One chart of a panel: its name and its metrics; the first group found is drawn, `log` says what to log for it."""

    title: str
    metrics: tuple[tuple[tuple[str, str], ...], ...]  # groups of (label, metric)
    wide: bool = False
    wanted: bool = True  # missed when it is not there
    log: str = ""


@dataclass(frozen=True)
class Panel:
    key: str
    title: str
    charts: tuple[tuple[Drawing, bool], ...]  # a drawing and whether it is wide
    missing: tuple[tuple[str, str], ...] = ()  # what is not in the logs, and what to log


def _one(metric: str, label: str = "median") -> tuple[tuple[tuple[str, str], ...], ...]:
    return (((label, metric),),)


def _both(quantity: str) -> tuple[tuple[str, str], ...]:
    return (("train", f"train/{quantity}"), ("validation", f"eval/{quantity}"))


def _validation(quantity: str) -> tuple[tuple[str, str], ...]:
    return (("validation", f"eval/{quantity}"),)


PANELS: tuple[tuple[str, str, tuple[Slot, ...]], ...] = (
    ("overview", "Training overview", (
        Slot("Loss", (_both("loss"), _validation("loss")), wide=True, log="the training loss"),
        Slot("Reward", _one("reward"), wide=True, wanted=False),
        Slot("Perplexity", (_validation("perplexity"), *_one("train/perplexity", "train")),
             log="the validation loss or perplexity"),
        Slot("Accuracy", (_both("accuracy"), _validation("accuracy")), wanted=False),
        Slot("Learning rate", _one("lr"), log="the learning rate of each step"),
    )),
    ("efficiency", "Efficiency", (
        Slot("Throughput", (*_one("tokens_per_second"), *_one("samples_per_second")), log="tokens or samples a second"),
        Slot("Step time", _one("step_time"), log="the time of each step"),
        Slot("GPU utilization", _one("gpu/utilization"), log="utilization.gpu of nvidia-smi"),
        Slot("MFU", (*_one("mfu"), *_one("tflops")), log="mfu or TFLOP/s"),
        Slot("Data loading", _one("data_time"), wanted=False),
    )),
    ("resources", "Resources", (
        Slot("GPU memory", (*_one("gpu/memory_share"), *_one("gpu/memory_used")), log="memory.used of nvidia-smi"),
        Slot("Power", _one("gpu/power"), log="power.draw of nvidia-smi"),
        Slot("Communication", (*_one("comm_share"), *_one("comm_time")), log="the communication time of each step"),
        Slot("GPU temperature", _one("gpu/temperature"), wanted=False),
    )),
    ("stability", "Stability", (
        Slot("Gradient norm", _one("grad_norm"), log="the gradient norm before clipping"),
        Slot("Clipped steps", _one("clipped", "share"), log="whether the gradient was clipped"),
        Slot("Loss scale", _one("loss_scale"), wanted=False),
        Slot("Skipped steps", _one("skipped_steps"), wanted=False),
        Slot("Parameter norm", _one("param_norm"), wanted=False),
        Slot("Update ratio", _one("update_ratio"), wanted=False),
        Slot("KL divergence", _one("kl"), wanted=False),
        Slot("Entropy", _one("entropy"), wanted=False),
    )),
)  # fmt: skip


_TITLES = {"tflops": "Compute rate", "comm_time": "Communication time"}  # of a slot's second choice
_NAMED = frozenset(metric for _, _, slots in PANELS for one in slots for group in one.metrics for _, metric in group)


# ---- panels ------------------------------------------------------------------------------


def whole_curves(run: RunDiagnosis) -> dict[str, Curve]:
    """The curve of each metric over the whole run: the one without a rank, else of the lowest rank."""
    found: dict[str, Curve] = {}
    for curve in sorted(run.curves, key=lambda one: (one.metric, -1 if one.rank is None else one.rank)):
        if not curve.of and curve.step:
            found.setdefault(curve.metric, curve)
    return found


def extent(run: RunDiagnosis) -> tuple[int, int]:
    """First and last step of the metrics that panels name, else of all: the common x axis.

    Some writers log odd tags against samples or seconds; those must not stretch the axis of all others.
    """
    whole = [curve for curve in run.curves if curve.step and not curve.of]
    known = [curve for curve in whole if curve.metric in _NAMED] or whole
    if not known:
        return 0, 1
    drawn = {curve.metric for curve in known}
    ends = [one.last_step for one in run.metrics if one.name in drawn and one.last_step is not None]
    first, last = min(curve.step[0] for curve in known), max(*(curve.step[-1] for curve in known), *ends, 0)
    return (0 if 0 < first <= 0.02 * last else first), max(last, first + 1)


def panels(run: RunDiagnosis) -> list[Panel]:
    """The panels that have something to show, and what is missing in them."""
    curves = whole_curves(run)
    found = [_panel(run, curves, key, title, slots) for key, title, slots in PANELS]
    found[-1] = _with_activations(run, curves, found[-1])
    return [panel for panel in (*found, *_others(run, curves)) if panel.charts]


def left_out(run: RunDiagnosis) -> list[str]:
    """Titles of panels of which nothing is in the logs."""
    there = {panel.key for panel in panels(run)}
    return [title for key, title, _ in PANELS if key not in there]


def chart(run: RunDiagnosis, curves: dict[str, Curve], slot: Slot) -> Drawing | None:
    """The slot's first group of metrics that is there."""
    for group in slot.metrics:
        chosen = [(label, curves[metric]) for label, metric in group if metric in curves]
        if chosen and chosen[0][1].metric == group[0][1]:
            settles = slot.title not in ("Learning rate", "Loss scale", "Clipped steps")
            title = _TITLES.get(group[0][1], slot.title)
            return draw(run, title, chosen, extent=extent(run), settles=settles)
    return None


def slot(title: str) -> Slot:
    return next(one for _, _, slots in PANELS for one in slots if one.title == title)


def _panel(run: RunDiagnosis, curves: dict[str, Curve], key: str, title: str, slots: Sequence[Slot]) -> Panel:
    drawn = [(chart(run, curves, one), one) for one in slots]
    charts = tuple((drawing, one.wide) for drawing, one in drawn if drawing is not None)
    missing = tuple((one.title, one.log) for drawing, one in drawn if drawing is None and one.wanted)
    return Panel(key, title, charts, missing)


def _with_activations(run: RunDiagnosis, curves: dict[str, Curve], panel: Panel) -> Panel:
    """The stability panel with three layers at most of activation statistics in one chart each for mean and spread."""
    charts = list(panel.charts)
    for prefix, title in (("act_mean/", "Activation mean"), ("act_std/", "Activation spread")):
        names = sorted(name for name in curves if name.startswith(prefix))
        if names:
            told = [finding.metric for finding in run.findings if finding.metric in names]
            picked = list(dict.fromkeys([*told, names[0], names[len(names) // 2], names[-1]]))[:3]
            group = [(name.removeprefix(prefix), curves[name]) for name in picked]
            charts.append((draw(run, title, group, extent=extent(run)), False))
    missing = panel.missing
    if not any(name.startswith("act_") for name in curves):
        missing = (*missing, ("Activations", "mean and standard deviation of each layer's output every 100 steps"))
    return Panel(panel.key, panel.title, tuple(charts), missing)


def _others(run: RunDiagnosis, curves: dict[str, Curve]) -> Iterable[Panel]:
    """Charts of metrics that no panel names; those with findings first."""
    told = {finding.metric for finding in run.findings}
    drawn = _NAMED | {metric for heat in layers(run, curves, extent(run)) for metric in heat.members}
    aside = ("bench/", "act_mean/", "act_std/")
    left = [
        one for name, one in curves.items() if name not in drawn and not name.startswith(aside) and len(one.step) > 2
    ]
    left = [curve for curve in left if not _is_counter(curve) and not has_ranks(run, curve.metric)]
    left.sort(key=lambda curve: (curve.metric not in told, curve.metric))
    charts = tuple((_other(run, curve), False) for curve in left[:MOST_OTHERS])
    yield Panel("other", "Other metrics", charts)


def _other(run: RunDiagnosis, curve: Curve) -> Drawing:
    """A curve on the common x axis; one that goes far beyond it counts something else than steps: no findings on it."""
    first, last = extent(run)
    if curve.step[-1] <= last + 0.02 * (last - first):
        return draw(run, curve.metric, [("median", curve)], extent=(first, last))
    return replace(draw(run, curve.metric, [("median", curve)]), bands=())


def _is_counter(curve: Curve) -> bool:
    return curve.metric in ("epoch", "tokens", "samples", "batch_size", "sequence_length", "gpu/memory_total")


def close_ups(run: RunDiagnosis, finding: Finding) -> list[Drawing]:
    """The finding's own metric near the episode, then the one that explains it, on one x axis."""
    found = [curve for curve in run.curves if curve.of == finding.id and finding.id and len(curve.step) > 2][:2]
    if not found:
        return []
    span = (min(curve.step[0] for curve in found), max(max(*curve.step, *curve.non_finite, 0) for curve in found))
    return [draw(run, _title(curve), [("as logged", curve)], extent=span) for curve in found]


def _title(curve: Curve) -> str:
    return curve.metric if curve.rank is None else f"{curve.metric}, rank {curve.rank}"


# ---- the eight numbers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    name: str
    value: str
    under: str = ""
    unit: str = ""
    finding: int | None = None  # number of the card that is about this metric
    severity: str = ""  # of that card


_FIGURES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("Training loss", ("train/loss",), "last"),
    ("Validation loss", ("eval/loss",), "last"),
    ("Reward", ("reward",), "last"),
    ("Throughput", ("tokens_per_second", "samples_per_second"), "median"),
    ("MFU", ("mfu",), "median"),
    ("GPU memory", ("gpu/memory_share", "gpu/memory_used"), "max"),
    ("Communication", ("comm_share", "comm_time"), "median"),
    ("Step time", ("step_time",), "median"),
    ("Gradient norm", ("grad_norm",), "median"),
    ("Accuracy", ("eval/accuracy", "train/accuracy"), "last"),
    ("Learning rate", ("lr",), "last"),
    ("GPU utilization", ("gpu/utilization",), "median"),
    ("Power", ("gpu/power",), "median"),
    ("TFLOP/s", ("tflops",), "median"),
    ("Tokens", ("tokens",), "last"),
)


def eight_numbers(run: RunDiagnosis) -> list[Figure]:
    """At most eight figures of what is in the logs: steps first, useful time last."""
    first, last = _steps_figure(run), _useful(run)
    numbers = [figure for one in _FIGURES if (figure := _figure(run, *one)) is not None]
    room = 8 - len(first) - len(last)
    return [*first, *numbers[:room], *last]


def _steps_figure(run: RunDiagnosis) -> list[Figure]:
    if (result := run.result).last_step is None:
        return []
    of = f"of {result.total_steps:,}" if result.total_steps else "no total in the logs"
    return [Figure("Steps", f"{result.last_step:,}", of)]


def _figure(run: RunDiagnosis, name: str, metrics: Sequence[str], how: str) -> Figure | None:
    for metric in metrics:
        about = next((one for one in run.metrics if one.name == metric and one.points), None)
        value = getattr(about, how) if about else None
        if about is None or value is None:
            continue
        told = next((card for card in cards(run) if _is_about(card, metric)), None)
        about_it = (told.number, told.finding.severity) if told else ()
        return Figure(name, bare(value, about.unit), _under(about, how), _SHORT.get(about.unit, about.unit), *about_it)
    return None


_SHORT = {"share": "", "s": "", "bytes": "", "tokens/s": "tok/s", "samples/s": "smp/s", "TFLOP/s": ""}


def _is_about(card: Card, metric: str) -> bool:
    return card.finding.severity != "info" and metric in {one.metric for one in (card.finding, *card.same)}


def _under(about: MetricReport, how: str) -> str:
    if how == "max":
        return f"largest; median {bare(about.median, about.unit)}"
    if how == "median":
        departs = about.last is not None and about.median and abs(about.last / about.median - 1) > 0.03
        return f"median; {bare(about.last, about.unit)} at the end" if departs else "median, steady to the end"
    if about.non_finite:
        return f"last finite; {about.non_finite:,} not finite"
    best = about.min if about.better == "lower" else about.max if about.better == "higher" else None
    if best is None:
        return f"largest {bare(about.max, about.unit)}"
    return "its best" if best == about.last else f"best {bare(best, about.unit)}"


def _useful(run: RunDiagnosis) -> list[Figure]:
    """The share of wall time that no finding cost."""
    total = run.result.seconds
    if not total or total < 60:
        return []
    told = [one for card in cards(run) for one in (card.finding, *card.same)]
    lost = sum(one.cost.seconds for one in told if one.cost and one.cost.seconds)
    share = max(0.0, 1 - lost / total)
    return [
        Figure(
            "Useful time",
            f"{figures(100 * share, 3)}{NBSP}%",
            f"{seconds(total - min(lost, total))} of {seconds(total)}",
        )
    ]
