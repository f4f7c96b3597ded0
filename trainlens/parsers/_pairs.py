"""Names and numbers on a line: where they stand, and what a name says (a step, a metric, neither)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from trainlens import catalog
from trainlens.catalog.languages import english
from trainlens.parsers._numbers import COUNT, NUMBER, counted, scaled

# Some numbers stand in brackets of their own: tensor(2.5), np.float64(2.5), [2.5]; a list of several is no number.
_VALUE = re.compile(
    rf"[:=]\s*(?:(?:tensor|np\.\w{{1,10}}|[aA]rray)(\()|(\[)|['\"](?=[^\s'\"]{{1,40}}['\"]))?({NUMBER})"
    r"([A-Za-z%]*(?:/[A-Za-z]+)?)['\"]?"
    r"(?:\s*/\s*(\d+))?(?:\s?\(([\d.]+)%\))?"
    r"(?:\s([KMG]i?B|ms|secs?|seconds|%)(?![\w/%]))?(?=[\s,;|)\]}(]|\Z)(?!,\d)(?!\s?(?:days?|hours?|hrs?|min(?:ute)?s?)\b)"
)
_CUT = re.compile(r"[|,;\t\[\]{}>]|\s{2,}|\s-\s|:\s|(?<=\d):|(?<!\w)\((?!\w{1,20}\) \w)")
_ENDS_IN_NUMBER = re.compile(r" #?\d[\d.,]*[a-zA-Z%]{0,2}\Z")
_IN_BRACKETS = re.compile(r"\s?\([^()]{1,30}\)\Z")
_NAME = re.compile(r"[^\W\d][^\n]{0,59}\Z")
STEP_WORD = re.compile(
    rf"\b(?:(?:global[ _]step|step|iter|iteration|update)s?[ #]+|Up\. )({COUNT})(?:\s*/\s*({COUNT}))?"
    r"(?!,\d)(?=\s*(?:[:;|,\])-]|\Z)|\s+(?-i:[|A-Z])|\s\((?:[\d.]+ iter/s|[\d.]{1,8}%\)\s*[|:,-]))",
    re.I,
)
MAY_STEP = re.compile(r"tep|ter|pdate|poch|STEP|ITER|Test|Val|EPOCH|Train:|Up\. |Batch")
# "step 7 loss 2.5 lr 0.1": a step that only blanks part from names and numbers
LOOSE_STEP = re.compile(
    rf"\b(?:step|iter|iteration)[ #]+({COUNT})(?:\s?/\s?({COUNT}))?(?=\s+(?:[-=]+>\s*)?[a-z_])", re.I
)
EPOCH_WORD = re.compile(
    r"\bepoch(?:s?\s*[:=#]?\s*\[?|\s*\[)\s*(\d{1,9})(?:\s*/\s*(\d+))?\s*\]?(?:\s+done)?"
    r"(?=\s*[:,;|)-]|\s+[A-Za-z*(]|\s*\Z)",
    re.I,
)
# The step in brackets at the begin of a line: XGBoost, LightGBM, CatBoost; CLU behind the header of glog
# "40 | loss 2.5", "40: loss=2.5", "[40/900] loss: 2.5", "#40 loss 2.5": where such numbers grow from row to row
BARE_STEP = re.compile(
    rf"[\s:|>-]*(?:\[\s*({COUNT})(?:\s*/\s*({COUNT}))?\s*\]:?|#?({COUNT})(?:\s*/\s*({COUNT}))?(?:\s*[:|,]|\s-)?)"
    r"(?=\s+[^\W\d])"
)
LEADING_STEP = re.compile(r"\s*(?:\[(\d+)\]|(\d+):)(?=\t)|(?:train: )?\[(\d+)\](?= \w+=)")
_GLOG = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d")
# What loggers put before their messages: all up to the level, a bracket with a clock, the place in the source
_HEADER = re.compile(
    r"""\W{0,3}[^=]{0,120}?\b(?:DEBUG|INFO|WARNING|WARN|ERROR|NOTICE|SUCCESS|CRITICAL)\b
        (?::[\w.]{1,60}:(?=\w)|[\]:)]*(?:\s*\|?\s*[\w.]{1,80}:[\w.<>]{1,80}:\d+\s-\s)?)
      | \W{0,3}(?:\[[^\[\]=]{0,80}\d\d:\d\d:\d\d[^\[\]=]{0,60}\]:?)+
      | [IWEF]\d{4}\ \d\d:\d\d:\d\d\.\d+\s+\d+\ [\w./-]{1,80}:\d+\]\s""",
    re.VERBOSE,
)
_NAMES_STEP = re.compile(r"step\b|(?<![a-z])iter\b|iteration|epoch", re.I)
_BARE = re.compile(
    r"\s*(?:(?:step|iter|epoch) \d+: )?"
    rf"([^\W\d][\w /.@-]*?) +({NUMBER})([A-Za-z%/]*)(?: ?\(\s*[-+]?[\w.+-]+%?\s*\))?(?: ([A-Za-z/%]+))?"
    r"(?: [*@] [\d,]+| after [\d,]+)*\s*\Z"
)
_BEHIND = re.compile(
    rf"\s*\(?({NUMBER})(%?)\s?([kKMGT](?=\s?[a-zA-Z]{{2,}}/))?\s?"
    r"([A-Za-z]+/(?:s|secs?|seconds?|it|iter|step|batch)|[KMGT]i?B|ms|TFLOPS?|TFLOPs|TFLOP/s|(?<=% )\w[\w ]*)\)?\s*\Z"
)
_TWO_RATES = re.compile(r"\s*(\d+)/\s?(\d+) (tok/s)\s*\Z")  # OpenNMT: of the source and of the target
_APART = re.compile(r", |\t|\||;|\s-\s|\s:\s|\s{2,}(?=[A-Za-z])(?!(?i:nan|inf)\b)|(?<=\w) \((?=\d[\d.]* ms)")
_HOLDS_NUMBER = re.compile(r"(?:^|\s)[\d.]+(?:\s|$)")
# "Loss at step 40: 2.5": the name stands before the step
_AT_STEP = re.compile(r"(.*\w) (?:at|after|for|@) (?:step|iteration|iter|epoch)s? #?[\d,]+\Z", re.I)
# "[EVAL] Step: 40, Loss: 2.5", "eval at step 40: loss 2.5", "Validation | loss 2.5"
_SPLIT = re.compile(
    r"[\s\[(<*=#-]*(eval(?:uation)?|val(?:id(?:ation)?)?|test(?:ing)?)(?:\s?[\])>*=#]+[\s:|-]|\s*[|:]\s|\s(?:at|after|@)\s|\s-\s)"
    r"(?!\s*\[\s*\d+/)",
    re.I,
)
_ARROW = re.compile(r"[\s:;]*(?:[-=]+>|-(?=\s))?\s*")
_DURATION = re.compile(r"\d+:\d\d(?::\d\d)?,?\Z")
_WORD = re.compile(r"[^\W\d][\w./@-]*:?\Z")
_SPACED = re.compile(rf"({NUMBER})([A-Za-z%/]*),?\Z")
_MEAN = re.compile(rf"\(({NUMBER})%?\)\Z")
_SETTING = frozenset(("total", "max", "num", "warmup", "per", "every"))  # steps, but not the one that was reached
_OF_SPLIT = re.compile(r"(?:train|valid\d*)_num_updates\Z")  # fairseq at the end of an epoch
_LOGGER = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR):[\w.]+:(?=\w)")  # logging.BASIC_FORMAT
_CODE_FILE = (".py", ".cc", ".cpp", ".c", ".cu", ".h", ".go", ".rs", ".sh")
_PLACES = frozenset(("DP", "PP", "TP", "EP", "CP", "SP", "pid", "PID", "port", "rank"))  # of the process that writes
# What a dictionary or a line without a step must hold to be a row of metrics and no list of settings.
_METRIC = re.compile(
    r"(?:^|[_/ .])(?:loss|ppl|perplexity|acc|accuracy|rewards?|score|bleu|rouge\w*|f1|auc|bpb|nll|mse|mae|wer|trl|tel)"
    r"(?:$|[_/ .](?!scale|scaling|fn|func|type|weight|mask|coef))|loss$|^(?:eval|val)_|[_/]returns?$|^[sf]ps$"
    r"|(?:steps?|examples|samples|tokens|images)(?:/|_per_)sec(?:ond)?$",
    re.I,
)


@lru_cache(maxsize=4096)
def is_step(key: str) -> bool:
    key = english(_OF_SPLIT.sub("num_updates", key))
    words = key.lower().replace("_", " ").split()
    if not words or (key != "num_updates" and not _SETTING.isdisjoint(words)):
        return False
    return catalog.axis(key) == "step" or catalog.axis(key.rpartition(" ")[2]) == "step"


@lru_cache(maxsize=4096)
def is_metric(key: str) -> bool:
    return _METRIC.search(english(key)) is not None


@lru_cache(maxsize=4096)
def is_measured(key: str) -> bool:
    """Whether a name beside a step can be no setting: of a metric, or a gradient norm or throughput."""
    return is_metric(key) or catalog.resolve([key])[key].role in ("grad-norm", "throughput")


def outermost(found: Sequence[Field]) -> str:
    """The name of the step of the whole run, where a line says so: "inner iter: 1/8 | global iter: 13/5000"."""
    return next((field.key for field in found if "global" in field.key.lower() and is_step(field.key)), "")


def split_of(text: str) -> str:
    """What to put before the names of a line that says of the whole line of which split its values are."""
    if "Saving dict for global step" in text or text.startswith("Test set: "):  # tf.estimator, the example of MNIST
        return "eval/"
    if found := _SPLIT.match(text, message(text)):
        return "eval/" if found[1][0] in "eEvV" else "test/" if found[1][0] in "tT" else ""
    if " epoch " in text and " | " in text:  # fairseq at the end of an epoch, where the names are those of its rows
        return next((f"{split}/" for split in ("train", "valid") if f"| {split} | epoch " in text), "")
    return ""


def message(text: str) -> int:
    """Where the message of a line begins, behind what its logger wrote before it."""
    found = _HEADER.match(text)
    if not found or _NAMES_STEP.search(text, 0, found.end()):
        return 0
    return found.end()


def leads(lines: Sequence[str]) -> bool:
    """Whether the rows of a text begin with their step: numbers that grow, as those of ranks would not for long."""
    found = []
    for line in lines:
        step = BARE_STEP.match(line, message(line))
        if step and is_metric_line(line, step.end()):
            found.append(counted(step[1] or step[3]))
    grown = sum(after > before for before, after in pairwise(found))
    return len(found) >= 3 and grown * 10 >= 9 * (len(found) - 1) and len(set(found)) * 10 >= 9 * len(found)


def is_metric_line(text: str, begin: int) -> bool:
    """Whether a field that measures stands behind `begin`, and none that is the step."""
    found = list(pairs(text, begin))
    found += list(bare(text, begin, found)) or spaced(text, begin)
    return any(is_metric(field.key) for field in found) and not any(is_step(field.key) for field in found)


def leading_step(text: str, begin: int) -> re.Match[str] | None:
    """The step in brackets that a message begins with; a rank would be followed by a blank."""
    found = LEADING_STEP.match(text, begin)
    return found if found and (found[3] is None or found[0].startswith("train") or _GLOG.match(text)) else None


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
    if not equals and (before := _AT_STEP.match(name)):
        name = before[1]
    if equals or not _NAME.match(name) or name.count(" ") > 5:
        name = name.rpartition(" ")[2].lstrip("([{'\"")
    if ":" in name:
        name = _LOGGER.sub("", name)
    if not _NAME.match(name) or name.endswith(_CODE_FILE) or name in _PLACES or _ENDS_IN_NUMBER.search(name):
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


def pairs(text: str, start: int = 0) -> Iterator[Field]:
    """The pairs of a line from `start` on."""
    before = start
    for found in _VALUE.finditer(text, start):
        sign = found.start()
        key = _key(text[max(before, sign - 80) : sign], text[sign] == "=")
        before = found.end()
        following = text[before : before + 1]  # "" where the line breaks off
        if not key or (found[1] and following not in (")", ",")) or (found[2] and following != "]"):
            continue
        unit, total = found[4], int(found[5] or 0)
        if found[6] and total and not is_step(key):  # 9842/10000 (98%): the share says it
            yield Field(f"{key} (%)", float(found[6]), sign - len(key), found.end(), found.span(6))
            continue
        between = text[sign - 1 : sign].isdigit() and not key[-1].isdigit()  # the step, as in "Loss at step 40: 2.5"
        begin = sign if between else sign - len(key)
        tag = f"{key} ({unit})" if unit in ("GiB", "MiB") and "(" not in key else key
        value = scaled(found[3], unit)
        yield Field(tag, value, begin, found.end(), found.span(3), unit or found[7] or "", total)
        if found[6]:
            yield Field(f"{key} (%)", float(found[6]), found.end(), found.end(), found.span(6))


def bare(text: str, start: int, known: Sequence[Field], *, sure: bool = True) -> Iterator[Field]:
    """`iter 250: loss 3.1895 BPC, time 32924.41ms, 171527 tok/s`: names and numbers with nothing between them.

    A number in brackets behind the value is its mean so far, and left out. Unless one is `sure` that the line is a
    row, names that measure and rates are taken only.
    """
    begin = _ARROW.match(text, start).end()  # type: ignore[union-attr]
    taken = sorted((field.begin, field.end) for field in known)
    at = 0
    for end, following in [*(found.span() for found in _APART.finditer(text, begin)), (len(text), 0)]:
        while at < len(taken) and taken[at][1] <= begin:
            at += 1
        if begin < end and (at == len(taken) or taken[at][0] >= end):
            if found := _BARE.match(text, begin, end):
                name = found[1].removesuffix(" is").strip()
                if (sure or is_metric(name)) and not _HOLDS_NUMBER.search(name):
                    unit = found[3] or found[4] or ""
                    yield Field(name, scaled(found[2], found[3]), begin, found.end(), found.span(2), unit)
            elif found := _BEHIND.match(text, begin, end):
                unit = found[2] or found[3] or ("" if "/" in found[4] else found[4])
                yield Field(found[4].strip(), scaled(found[1], found[3] or ""), begin, found.end(), found.span(1), unit)
            elif found := _TWO_RATES.match(text, begin, end):
                for which, name in ((1, "source"), (2, "target")):
                    yield Field(f"{found[3]} ({name})", float(found[which]), begin, found.end(), found.span(which))
        begin = following


def spaced(text: str, start: int) -> list[Field]:
    """`loss 2.5 lr 0.1 acc 50.2% (49.8%)`: names and numbers in turn and nothing else, from `start` to the end."""
    fields: list[Field] = []
    names: list[str] = []
    begin = start = _ARROW.match(text, start).end()  # type: ignore[union-attr]
    for token in re.finditer(r"\S+", text[start : start + 2000]):
        word, at = token[0], start + token.start()
        if _DURATION.match(word) and names:
            names = []
            continue
        if found := _SPACED.match(word):
            if not names or len(names) > 3:
                return []
            unit = found[2]
            span = (at + found.start(1), at + found.end(1))
            fields.append(Field(" ".join(names).rstrip(":"), scaled(found[1], unit), begin, at + len(word), span, unit))
            names = []
        elif _MEAN.match(word) and fields and not names:
            continue
        elif _WORD.match(word):
            begin = at if not names else begin
            names.append(word)
        else:
            return []
    return [] if names or not any(is_metric(field.key) for field in fields) else fields
