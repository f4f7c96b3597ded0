"""The kernel's log: what the Linux kernel and the drivers say of GPUs, memory and processes that stand still.

Lines as `dmesg` prints them, with a date ("[Sat Mar  4 04:23:09 2023]"), seconds since boot ("[ 1843.308145]") or since
the line before ("[  +0.000316]"), and as `journalctl -k` and syslog keep them. Read as events: Xid errors,
uncorrectable ECC errors, GPUs that fell off the bus or were reset, processes that are blocked, file systems that do
not answer, processes killed for want of memory, errors of PCI Express, of the machine's memory and processors (MCE,
EDAC), network links that went down, and throttling for heat. What is said again of the same process or device is one
event, with its count. Only a date with its year is a time; the machine's clock is read as UTC.

The messages: https://docs.nvidia.com/deploy/xid-errors, https://docs.kernel.org/admin-guide/sysctl/kernel.html (hung
tasks), https://docs.kernel.org/PCI/pcieaer-howto.html, https://docs.kernel.org/admin-guide/RAS/main.html (EDAC).
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainlens.model import Batch, Checkpoint, Event, EventKind, Place
from trainlens.parsers._lines import blocks, clock, head_text
from trainlens.sources import Source

TELLS_END = True
READS_TEXT = True

_DATED = re.compile(r"(?:<\d+>)?\[\w{3} (\w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")
_PREFIX = re.compile(
    r"^(?:<\d+>)?(?:"
    r"\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "  # dmesg -T
    r"|\[\s*\d+\.\d{6}\] |\[\s*\+\s*\d+\.\d{6}\] |\[\w{3}[ \d]+\d \d\d:\d\d\] "  # dmesg; dmesg -d and -e
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)? "
    r"(?:\S+ kernel(?:\[\d+\])?: )?"  # --time-format iso, journalctl
    r"|\w{3} [ \d]\d (?:\d{4} )?\d\d:\d\d:\d\d(?: \d{4})? \S+ kernel(?:\[\d+\])?: "  # syslog, journalctl
    r")(?:\[\s*\d+\.\d+\] )?"
)
# A kernel says these; one in the first lines tells its log from a program's with the same time stamps.
_KERNEL = re.compile(
    r"Linux version \d|NVRM: |pcieport |INFO: task |BIOS-|Command line: |ACPI|audit: |systemd\[1\]|oom-kill"
    r"|Out of memory: |nvidia-|usb \d|Call Trace:|CPU: \d+ PID: |pci \d{4}:|kernel: "
    r"|amdgpu |EDAC |mce: |\[Hardware Error\]|mlx5_core |nfs: server |Lustre"
)
_MOST = 10_000  # different things said
_LONGEST = 2_000  # characters of a line that are looked at

_GPU = r"NVRM: (?:.{0,60}?(?P<who>[\da-fA-F]{4,8}:[\da-fA-F:.]{2,20}))?.{0,99}?"
# What each kind is known by; `who` names the process or device that repeats are counted for.
_SAID: tuple[tuple[EventKind, re.Pattern[str]], ...] = (
    ("xid", re.compile(r"NVRM: Xid \((?P<who>[^)]{0,99}\): \d+)")),
    ("gpu-lost", re.compile(_GPU + r"fallen off the bus")),
    ("gpu-lost", re.compile(r"amdgpu (?P<who>[\da-fA-F:.]+): .{0,40}GPU reset begin")),
    ("ecc", re.compile(_GPU + r"[Uu]ncorrectable .{0,99}ECC|uncorrectable ECC error"
                       r"|amdgpu .{0,99}uncorrectable hardware")),
    ("hang", re.compile(r"INFO: task (?P<who>.{1,200}?:\d+) blocked for more than \d+ seconds")),
    ("hang", re.compile(r"watchdog: BUG: soft lockup - (?P<who>CPU#\d+) stuck for \d+s")),
    ("hang", re.compile(r"(?:rcu: )?INFO: rcu\w* (?:self-)?detected stall")),
    ("hang", re.compile(r"nfs: server (?P<who>\S+) not responding")),
    ("hang", re.compile(r"Lustre: .{0,200}Connection to (?P<who>\S+) .{0,99}was lost")),
    ("hang", re.compile(r"LustreError: .{0,200}(?P<who>\S+): .{0,99}timed out")),
    ("host-out-of-memory", re.compile(r"[Oo]ut of memory: Kill(?:ed)? process (?P<who>\d+ \S+)")),
    ("segmentation-fault", re.compile(r"(?P<who>[\w.:/-]{1,64}\[\d+\]): segfault at ")),
    ("machine-check", re.compile(r"mce: (?:\[Hardware Error\]: )?(?:Machine check events|CPU.{0,40}Machine Check)")),
    ("machine-check", re.compile(r"\[Hardware Error\]: (?:Uncorrected|Deferred|Corrected) error")),
    ("machine-check", re.compile(r"EDAC (?P<who>\S+): .{0,40}\b[CU]E\b")),
    ("link-down", re.compile(r"mlx\d_\w+ (?P<who>[\da-fA-F:.]+).{0,99}[Ll]ink (?:[Dd]own|DOWN)")),
    ("link-down", re.compile(r"(?P<who>ib\w{0,20}\d|mlx\d_\d)\b.{0,60}(?:link (?:is )?down|change.{0,20}DOWN)", re.I)),
    ("thermal", re.compile(r"(?P<who>CPU\d+): (?:Core|Package) temperature .{0,20}above threshold")),
    ("thermal", re.compile(r"(?P<who>GPU|NVRM).{0,60}thermal (?:slowdown|shutdown)", re.I)),
    ("pcie", re.compile(
        r"(?P<who>[\da-fA-F]{4}:[\da-fA-F:.]+): (?:AER: |PCIe Bus Error: severity=)(?:Multiple )?"
        r"(?:Corrected|Correctable|Uncorrect(?:ed|able))"
    )),
)  # fmt: skip


def sniff(head: bytes, path: Path) -> float:  # noqa: ARG001  known by its lines
    """How sure it is that the kernel wrote these lines."""
    if b"\0" in head[:2000] and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return 0.0
    lines = [line for line in head_text(head).split("\n") if line.strip()][:400]
    stamped = sum(bool(_PREFIX.match(line)) for line in lines)
    if not lines or stamped < 0.8 * len(lines) or not any(_KERNEL.search(line) for line in lines):
        return 0.0
    return 0.93


def read(source: Source, since: Checkpoint | None = None) -> Iterator[Batch]:  # noqa: ARG001  counts need all of it
    """One event for each process, device or error that is spoken of, at its first mention."""
    said = _Said(source.name)
    for block in blocks(source):
        for at, line in enumerate(block.text.decode("utf-8", "replace").split("\n")):
            said.read(line, block.line + at)
    yield from said.events()


@dataclass
class _Said:
    path: str
    first: dict[tuple[EventKind, str], Event] = field(default_factory=dict)
    last: dict[tuple[EventKind, str], tuple[int, str]] = field(default_factory=dict)  # how often, the last time stamp

    def read(self, line: str, number: int) -> None:
        line = line[:_LONGEST]
        for kind, pattern in _SAID:
            found = pattern.search(line)
            if found is None:
                continue
            key = kind, found.groupdict().get("who") or ""
            if key not in self.first and len(self.first) < _MOST:
                text = _PREFIX.sub("", line.rstrip())[:400]
                self.first[key] = Event(kind, text, time=_time(line), place=Place(self.path, number))
            count, _ = self.last.get(key, (0, ""))
            self.last[key] = count + 1, line[: (prefix.end() if (prefix := _PREFIX.match(line)) else 0)].strip(" []")
            return

    def events(self) -> Iterator[Event]:
        for key, event in self.first.items():
            count, until = self.last[key]
            text = f"{event.text} ({count:,} times, the last at {until})" if count > 1 else event.text
            yield replace(event, text=text)


def _time(line: str) -> float | None:
    """The date a line begins with, as Unix seconds."""
    found = _DATED.match(line)
    if found is None:
        return clock(line, 40)
    try:
        return float(calendar.timegm(time.strptime(found[1], "%b %d %H:%M:%S %Y")))
    except ValueError:
        return None
