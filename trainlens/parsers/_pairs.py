"""Names and numbers on a line: where they stand, and what a name says (a step, a metric, neither)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trainlens import catalog
from trainlens.parsers._numbers import NUMBER, scaled

_VALUE = re.compile(
    rf"[:=]\s*({NUMBER})([A-Za-z%]*(?:/[A-Za-z]+)?)(?:\s*/\s*(\d+))?(?:\s?\(([\d.]+)%\))?(?=[\s,;|)\]}}(]|\Z)"
)
_CUT = re.compile(r"[|,;\t\[\]{}>]|\s{2,}|\s-\s|:\s|(?<=\d):|(?<!\w)\(")
_IN_BRACKETS = re.compile(r"\s?\([^()]{1,30}\)\Z")
_NAME = re.compile(r"[^\W\d][^\n]{0,59}\Z")
STEP_WORD = re.compile(
    r"\b(?:global[ _]step|step|iter|iteration|update)s?[ #]+(\d+)(?:\s*/\s*(\d+))?(?=\s*(?:[:|,\])-]|\Z)|\s+[|A-Z])",
    re.I,
)
MAY_STEP = re.compile(r"tep|ter|pdate|STEP|ITER")
_BARE = re.compile(rf"\s*([^\W\d][\w /.-]*?) ({NUMBER})([A-Za-z%/]*)(?: [A-Za-z/]+)?\s*\Z")
_SETTING = frozenset(("total", "max", "num", "warmup", "per", "every"))  # steps, but not the one that was reached
_CODE_FILE = (".py", ".cc", ".cpp", ".c", ".cu", ".h", ".go", ".rs", ".sh")
_PLACES = frozenset(("DP", "PP", "TP", "EP", "CP", "SP", "pid", "PID", "port", "rank"))  # of the process that writes
# What a dictionary or a line without a step must hold to be a row of metrics and no list of settings.
_METRIC = re.compile(
    r"(?:^|[_/ .])(?:loss|ppl|perplexity|acc|accuracy|rewards?|score|bleu|rouge\w*|f1|auc|bpb|nll|mse|mae|wer|trl|tel)"
    r"(?:$|[_/ .](?!scale|scaling|fn|func|type|weight|mask|coef))|loss$|^(?:eval|val)_",
    re.I,
)


@lru_cache(maxsize=4096)
def is_step(key: str) -> bool:
    words = key.lower().replace("_", " ").split()
    if not words or (key != "num_updates" and not _SETTING.isdisjoint(words)):
        return False
    return catalog.axis(key) == "step" or catalog.axis(key.rpartition(" ")[2]) == "step"


@lru_cache(maxsize=4096)
def is_metric(key: str) -> bool:
    return _METRIC.search(key) is not None


@lru_cache(maxsize=16384)
def _key(text: str, equals: bool) -> str:
    """The name that ends where a value begins: one word before "=", the words since the last separator before ":"."""
    text = text.strip()
    unit = _IN_BRACKETS.search(text)
    bare = text[: unit.start()] if unit else text
    cut = 0
    for found in _CUT.finditer(bare):
        cut = found.end()
    name = bare[cut:].strip(" -*'\"(")
    if equals or not _NAME.match(name) or name.count(" ") > 5:
        name = name.rpartition(" ")[2].lstrip("([{'\"")
    if not _NAME.match(name) or name.endswith(_CODE_FILE) or name in _PLACES or name.rpartition(" ")[2].isdigit():
        return ""
    return name + (unit[0] if unit else "")


@dataclass(frozen=True, slots=True)
class Field:
    key: str
    value: float
    begin: int  # of the name in the line
    end: int  # behind the value and its unit
    number: tuple[int, int]
    unit: str = ""
    total: int = 0  # behind a slash


def pairs(text: str) -> Iterator[Field]:
    """The pairs of a line."""
    before = 0
    for found in _VALUE.finditer(text):
        sign = found.start()
        key = _key(text[max(before, sign - 80) : sign], text[sign] == "=")
        before = found.end()
        if not key:
            continue
        unit = found[2]
        tag = f"{key} ({unit})" if unit in ("GiB", "MiB") and "(" not in key else key
        value = scaled(found[1], unit)
        yield Field(tag, value, sign - len(key), found.end(), found.span(1), unit, int(found[3] or 0))
        if found[4]:
            yield Field(f"{key} (%)", float(found[4]), found.end(), found.end(), found.span(4))


def bare(text: str, start: int, known: Sequence[Field]) -> Iterator[Field]:
    """`iter 250: loss 3.1895 BPC, time 32924.41ms`: names and numbers with nothing between them."""
    at = start + 1
    for chunk in text[start + 1 :].split(", "):
        found = _BARE.match(chunk)
        if found and not any(field.begin < at + len(chunk) and at < field.end for field in known):
            number = (at + found.start(2), at + found.end(2))
            yield Field(found[1], scaled(found[2], found[3]), at, at + len(chunk.rstrip()), number, found[3])
        at += len(chunk) + 2
