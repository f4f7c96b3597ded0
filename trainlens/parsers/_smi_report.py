"""The reports of nvidia-smi: the tree of `-q`, the same as XML (`-q -x`), and the boxed table of the bare command.

Each is one moment, or many where it was told to go on (`-l`, `watch`, an appended file). Measures have the names that
the same quantities have in a query (`nvidia-smi --help-query-gpu`); what else is telling of a GPU (its name, memory
errors, limits) is a fact of the first moment. GPUs are known by their bus and numbered as they come.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from trainlens.model import Batch, Fact, Place, Points, Value
from trainlens.parsers._lines import blocks, clock, plain
from trainlens.parsers._smi_tables import number
from trainlens.sources import Source

BANNER = "==============NVSMI LOG=============="
XML = re.compile(r"<!DOCTYPE nvidia_smi_log|<nvidia_smi_log>")
BOX = re.compile(r"^\|\s+NVIDIA-SMI\s+[\d.]+\s+(?:Driver|KMD|DCH|\S)")
# Paths below a GPU that are measured, as the tree and the XML write them, and their names in a query.
_MEASURED = (
    (re.compile(r"utilization\.gpu(?:_util)?"), "utilization.gpu [%]"),
    (re.compile(r"utilization\.memory(?:_util)?"), "utilization.memory [%]"),
    (re.compile(r"fb_memory_usage\.used"), "memory.used [MiB]"),
    (re.compile(r"fb_memory_usage\.total"), "memory.total [MiB]"),
    (re.compile(r"(?:gpu_)?power_readings\.(?:average_|instant(?:aneous)?_)?power_draw"), "power.draw [W]"),
    (re.compile(r"temperature\.(?:gpu_current_temp|gpu_temp)"), "temperature.gpu"),
    (re.compile(r"clocks\.sm(?:_clock)?"), "clocks.sm [MHz]"),
    (re.compile(r"clocks\.mem(?:ory|_clock)"), "clocks.mem [MHz]"),
)
_REASON = re.compile(r"clocks_(?:throttle|event)_reasons\.(?:.*\.)?(?:clocks_(?:throttle|event)_reason_)?(\w+)")
_LINE = re.compile(r"^( *)(\S[^:]*?)(?: *: (.*))?$")
_GPU = re.compile(r"^GPU ([\dA-Fa-f:.]+)$")
_TAG = re.compile(r"<(/?)(\w+)((?:\s[^<>]{0,200})?)(/?)>([^<]{0,1000})")
# Paths below a GPU that tell what it is and whether it is well.
_TOLD = re.compile(
    r"Product Name|Minor Number|FB Memory Usage\.Total|Enforced Power Limit|GPU Current Temp|Performance State"
    r"|ECC Errors\.\w+\..*(?:Uncorrect|Double)|Retired Pages\.|Remapped Rows\.(?:Correct|Uncorrect|Pending|Remapping)"
    r"|Clocks (?:Throttle|Event) Reasons\.(?:HW|SW) (?:Slowdown|Thermal|Power)"
)
_TOLD_XML = re.compile(r"product_name|minor_number|ecc_errors\.\w+\..*(?:uncorrect|double)|enforced_power_limit")
_ABOVE = ("Timestamp", "Driver Version", "CUDA Version", "Attached GPUs",
          "timestamp", "driver_version", "cuda_version", "attached_gpus")  # fmt: skip
_CARD = re.compile(
    r"^\|\s{1,6}(\d{1,3})\s{1,4}(\S.{0,60}?)\s+(?:On|Off|N/A)\s*\|\s*[\dA-Fa-f]+:[\dA-Fa-f:.]+\s+\S+\s*\|\s*(\S+)\s*\|"
)
_READINGS = re.compile(
    r"^\|\s*(?:\d+%|N/A|ERR!)\s+(?:(\d+)C|N/A|ERR!)\s+\S+\s+(?:(\d+)W|N/A|\S+)\s*/\s*(?:\d+W|N/A|\S+)\s*\|"
    r"\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|\s*(?:(\d+)%|N/A|ERR!)\s"
)
_READ = ("temperature.gpu", "power.draw [W]", "memory.used [MiB]", "memory.total [MiB]", "utilization.gpu [%]")
_WEEKDAY = re.compile(
    r"(?:^|\s)((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\s+([A-Z][a-z]{2})\s+(\d{1,2})\s+(\d\d:\d\d:\d\d)\s+"
    r"(?:[A-Z]{1,5}\s+)?(\d{4}))"
)


@dataclass
class _Moments:
    """What is told of the GPUs, moment by moment."""

    path: str
    time: float = np.nan
    ranks: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    rows: dict[tuple[str, int], list[tuple[float, float, int]]] = field(default_factory=lambda: defaultdict(list))

    def measure(self, tag: str, rank: int, text: str, line: int) -> None:
        value = number(text)
        if np.isfinite(value):
            self.rows[tag, rank].append((value, self.time, line))

    def state(self, name: str, value: str, line: int) -> None:
        if value.strip() not in ("N/A", "[N/A]", ""):
            self.facts.setdefault(name, Fact(name, _value(value.strip()), Place(self.path, line)))

    def tell(self, name: tuple[str, ...], value: str, rank: int, line: int, told: re.Pattern[str]) -> None:
        """A value below a GPU, by the names that lead to it."""
        whole = ".".join(name)
        plain_path = whole.lower().replace(" ", "_")
        tag = next((tag for pattern, tag in _MEASURED if pattern.fullmatch(plain_path)), None)
        if tag is None and (reason := _REASON.fullmatch(plain_path)) and value.strip() in ("Active", "Not Active"):
            tag = f"clocks_event_reasons.{reason[1]}"
        if tag is not None:
            self.measure(tag, rank, value, line)
        if told.search(whole):
            self.state(f"{rank}.{whole}", value, line)

    def batches(self) -> Iterator[Batch]:
        yield from self.facts.values()
        for (tag, rank), rows in self.rows.items():
            value, time, line = zip(*rows, strict=True)
            times = np.array(time, np.float64)
            clocked = times if np.isfinite(times).any() else None
            yield Points(tag, None, np.array(value, np.float64), clocked, rank, np.array(line, np.int64))


def is_report(text: str) -> bool:
    """Whether a head is one of the reports, in whichever form."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return False
    if lines[0].strip() == BANNER or XML.search("\n".join(lines[:3])):
        return True
    drawn = sum(line.startswith(("|", "+")) for line in lines)  # a log that prints one table on its way has other lines
    return any(BOX.match(line) for line in lines[:12]) and drawn > 0.7 * len(lines)


def batches(source: Source) -> Iterator[Batch]:
    """Facts of the first moment and measures of all; a last line without its end is left out."""
    found = _Moments(source.name)
    read = None
    for block in blocks(source):
        text = plain(block.text.decode("utf-8", "replace").replace("\r", ""))
        if block.torn and read is not None:
            break
        if read is None:
            read = _Xml(found) if XML.search(text[:4000]) else _Tree(found) if BANNER in text[:4000] else _Box(found)
        for at, line in enumerate(text.split("\n")):
            read.line(line, block.line + at)
    yield from found.batches()


class _Tree:
    """`nvidia-smi -q`: indented names with values behind colons."""

    def __init__(self, found: _Moments) -> None:
        self.found, self.rank, self.path = found, -1, list[tuple[int, str]]()

    def line(self, line: str, at: int) -> None:
        text = line.rstrip()
        if text.strip() == BANNER:
            self.rank, self.path = -1, []
        elif gpu := _GPU.match(text):
            self.rank = self.found.ranks.setdefault(gpu[1], len(self.found.ranks))
            self.path = []
        elif entry := _LINE.match(text):
            depth, name, value = len(entry[1]), entry[2], entry[3]
            self.path = [*(part for part in self.path if part[0] < depth), (depth, name)]
            if value is None:
                return
            if self.rank >= 0:
                self.found.tell(tuple(part for _, part in self.path), value, self.rank, at, _TOLD)
            elif name in _ABOVE:
                self.found.state(name, value, at)
                if name == "Timestamp":
                    self.found.time = moment(value)


class _Xml:
    """`nvidia-smi -q -x`, read tag by tag, so that neither entities nor damage can do harm."""

    def __init__(self, found: _Moments) -> None:
        self.found, self.rank, self.path = found, -1, list[str]()

    def line(self, line: str, at: int) -> None:
        for close, name, attributes, alone, value in _TAG.findall(line):
            if close:
                if name in self.path:
                    del self.path[len(self.path) - 1 - self.path[::-1].index(name) :]
                continue
            if name == "nvidia_smi_log":
                self.path, self.rank = [], -1
                continue
            if name == "gpu" and (bus := re.search(r'id="([^"]{1,40})"', attributes)):
                self.rank = self.found.ranks.setdefault(bus[1], len(self.found.ranks))
                self.path = ["gpu"]
                continue
            if not alone and len(self.path) < 32:
                self.path.append(name)
            if not value.strip():
                continue
            if self.path[:1] == ["gpu"]:
                self.found.tell(tuple(self.path[1:]), value, self.rank, at, _TOLD_XML)
            elif name in _ABOVE:
                self.found.state(name, value, at)
                if name == "timestamp":
                    self.found.time = moment(value)


class _Box:
    """The table of the bare command: two lines for each GPU."""

    def __init__(self, found: _Moments) -> None:
        self.found, self.rank, self.since = found, -1, 0

    def line(self, line: str, at: int) -> None:
        if card := _CARD.match(line):
            self.rank = int(card[1])
            self.found.state(f"{self.rank}.Product Name", card[2], at)
            self.found.measure("ecc.errors.uncorrected.volatile.total", self.rank, card[3], at)
        elif self.rank >= 0 and (told := _READINGS.match(line)):
            for tag, value in zip(_READ, told.groups(), strict=True):
                self.found.measure(tag, self.rank, value or "", at)
            self.rank = -1
        elif not line.startswith("|") and np.isfinite(time := moment(line)):
            self.found.time = time


def moment(text: str) -> float:
    """Unix seconds of "Sat Mar  4 04:56:17 2023" or of a date in figures, read as UTC; NaN where there is none."""
    if found := _WEEKDAY.search(text[:200]):
        try:
            stamp = datetime.strptime(f"{found[2]} {found[3]} {found[4]} {found[5]} +0000", "%b %d %H:%M:%S %Y %z")
        except ValueError:
            return np.nan
        return stamp.timestamp()
    known = clock(text)
    return np.nan if known is None else known


def _value(text: str) -> Value:
    return int(text) if text.isdecimal() else text
