"""The report of `nvidia-smi -q`: a tree of names and values for each GPU, of which the telling ones are facts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainlens.model import Fact, Place, Value
from trainlens.parsers._lines import blocks
from trainlens.sources import Source

BANNER = "==============NVSMI LOG=============="
_LINE = re.compile(r"^( *)(\S[^:]*?)(?: *: (.*))?$")
_GPU = re.compile(r"^GPU ([\dA-F:.]+)$")
# Paths below a GPU that tell what it is and whether it is well.
_TOLD = re.compile(
    r"Product Name|Minor Number|FB Memory Usage\.Total|Enforced Power Limit|GPU Current Temp|Performance State"
    r"|ECC Errors\.\w+\..*(?:Uncorrect|Double)|Retired Pages\.|Remapped Rows\.(?:Correct|Uncorrect|Pending|Remapping)"
    r"|Clocks (?:Throttle|Event) Reasons\.(?:HW|SW) (?:Slowdown|Thermal|Power)"
)
_ABOVE = ("Timestamp", "Driver Version", "CUDA Version", "Attached GPUs")


def facts(source: Source) -> Iterator[Fact]:
    """Driver and number of GPUs, and what _TOLD names of each GPU ("0.Product Name"), counted from 0 as they come."""
    gpu, path = -1, list[tuple[int, str]]()
    for block in blocks(source):
        for at, line in enumerate(block.text.decode("utf-8", "replace").split("\n")):
            if _GPU.match(line.rstrip()):
                gpu, path = gpu + 1, []
                continue
            found = _LINE.match(line.rstrip())
            if found is None:
                continue
            depth, name, value = len(found[1]), found[2], found[3]
            path = [*(part for part in path if part[0] < depth), (depth, name)]
            if value is None or value in ("N/A", ""):
                continue
            place = Place(source.name, block.line + at)
            whole = ".".join(part for _, part in path)
            if gpu < 0:
                if name in _ABOVE:
                    yield Fact(name, _value(value), place)
            elif _TOLD.search(whole):
                yield Fact(f"{gpu}.{whole}", _value(value), place)


def _value(text: str) -> Value:
    return int(text) if text.isdecimal() else text
