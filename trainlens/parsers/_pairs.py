"""Names and numbers on a line: where they stand, and what a name says (a step, a metric, neither)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trainlens import catalog
from trainlens.parsers._numbers import NUMBER, scaled

_VALUE = re.compile(
    rf"[:=]\s*({NUMBER})([A-Za-z%]*(?:/[A-Za-z]+)?)(?:\s*/\s*(\d+))?(?:\s?\(([\d.]+)%\))?"
    r"(?:\s([KMG]i?B|ms|secs?|seconds|%)(?![\w/%]))?(?=[\s,;|)\]}(]|\Z)"
)
_CUT = re.compile(r"[|,;\t\[\]{}>]|\s{2,}|\s-\s|:\s|(?<=\d):|(?<!\w)\(")
_IN_BRACKETS = re.compile(r"\s?\([^()]{1,30}\)\Z")
_NAME = re.compile(r"[^\W\d][^\n]{0,59}\Z")
STEP_WORD = re.compile(
    r"\b(?:global[ _]step|step|iter|iteration|update)s?[ #]+(\d+)(?:\s*/\s*(\d+))?"
    r"(?=\s*(?:[:|,\])-]|\Z)|\s+[|A-Z]|\s\([\d.]+ iter/s)",
    re.I,
)
MAY_STEP = re.compile(r"tep|ter|pdate|poch|STEP|ITER|Test|Val|EPOCH")
_BARE = re.compile(
    rf"\s*([^\W\d][\w /.@-]*?) +({NUMBER})([A-Za-z%/]*)(?: ?\(\s*[-+]?[\w.+-]+\s*\))?(?: ([A-Za-z/%]+))?\s*\Z"
)
_APART = re.compile(r", |\t|\|")
_SETTING = frozenset(("total", "max", "num", "warmup", "per", "every"))  # steps, but not the one that was reached
_OF_SPLIT = re.compile(r"(?:train|valid\d*)_num_updates\Z")  # fairseq at the end of an epoch
_LOGGER = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR):[\w.]+:(?=\w)")  # logging.BASIC_FORMAT
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
    key = _OF_SPLIT.sub("num_updates", key)
    words = key.lower().replace("_", " ").split()
    if not words or (key != "num_updates" and not _SETTING.isdisjoint(words)):
        return False
    return catalog.axis(key) == "step" or catalog.axis(key.rpartition(" ")[2]) == "step"


@lru_cache(maxsize=4096)
def is_metric(key: str) -> bool:
    return _METRIC.search(key) is not None


def split_of(text: str) -> str:
    """What to put before the names of a line that says of the whole line of which split its values are."""
    if "Saving dict for global step" in text:  # tf.estimator
        return "eval/"
    if " epoch " in text and " | " in text:  # fairseq at the end of an epoch, where the names are those of its rows
        return next((f"{split}/" for split in ("train", "valid") if f"| {split} | epoch " in text), "")
    return ""


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
    if ":" in name:
        name = _LOGGER.sub("", name)
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
        yield Field(tag, value, sign - len(key), found.end(), found.span(1), unit or found[5] or "", int(found[3] or 0))
        if found[4]:
            yield Field(f"{key} (%)", float(found[4]), found.end(), found.end(), found.span(4))


def bare(text: str, start: int, known: Sequence[Field]) -> Iterator[Field]:
    """`iter 250: loss 3.1895 BPC, time 32924.41ms`: names and numbers with nothing between them.

    A number in brackets behind the value is its mean so far, and left out.
    """
    begin = start + (text[start : start + 1] == ":")
    for end, following in [*(found.span() for found in _APART.finditer(text, begin)), (len(text), 0)]:
        found = _BARE.match(text, begin, end)
        if found and not any(field.begin < end and begin < field.end for field in known):
            unit = found[3] or found[4] or ""
            yield Field(found[1], scaled(found[2], found[3]), begin, found.end(), found.span(2), unit)
        begin = following
