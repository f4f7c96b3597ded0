"""Lines of text inside lines of JSON, as containers and structured loggers write them: the text is taken out.

`{"log":"step=1 loss=2.5\\n","stream":"stdout","time":"2026-01-01T00:00:00.123456789Z"}` (Docker's json-file,
https://docs.docker.com/engine/logging/drivers/json-file/), `{"level":"info","ts":1767225600,"msg":"step=1 loss=2.5"}`.
An object that holds anything beside its message and what says where and when it was written is a row of its own.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from trainlens.catalog.table import word_set

_BEGINS = re.compile(rb'^[ \t]*\{"', re.MULTILINE)
_MESSAGES = ("log", "msg", "message", "event", "text", "line", "textpayload", "@message")
# What may stand beside the message, in small letters; anything else makes the object a row of its own.
_AROUND = word_set(
    "stream time ts timestamp @timestamp date asctime level levelname severity logger name module caller file "
    "filename func function funcname line lineno linenumber pid process processname thread threadname host "
    "hostname attrs labels kubernetes source tag pod container namespace rank @version record logname insertid "
    "receivetimestamp resource trace spanid sourcelocation ingestiontime eventid logstreamname loggroupname "
    "loggroup logstream @logstream @log @ptr priority"
)  # record: loguru's; logname …: Google Cloud's; ingestiontime …: CloudWatch's; priority: the journal's
# The fields that journald adds to a message: https://www.freedesktop.org/software/systemd/man/systemd.journal-fields
_JOURNAL = re.compile(r"_[A-Z_]+|(?:SYSLOG|CODE|MESSAGE|COREDUMP|OBJECT)_[A-Z_]+|TID|ERRNO|UNIT|INVOCATION_ID")
_TIMES = ("time", "ts", "timestamp", "@timestamp", "asctime", "date", "__REALTIME_TIMESTAMP")
_UNITS = (1, 1e3, 1e6, 1e9)  # seconds, and parts of them, that whole numbers count since 1970
_DIGITS = re.compile(r"\d{10,19}")


def enveloped(text: bytes) -> bool:
    """Whether the first line that is not empty is such an object."""
    first = text.lstrip()[:65536].partition(b"\n")[0]
    return first.startswith(b'{"') and _inside(first.decode("utf-8", "replace")) is not None


def holds_envelopes(text: bytes) -> bool:
    """Whether a line may be such an object, as far as its first signs tell."""
    if b"{" not in text:  # one character is looked for at the speed of memory
        return False
    return b'{"' in text and _BEGINS.search(text) is not None


def opened(text: bytes) -> bytes:
    """The text with each such line replaced by its clock and its message; as many lines as before."""
    if not holds_envelopes(text):
        return text
    return "\n".join(_opened(line) for line in text.decode("utf-8", "replace").split("\n")).encode()


def _opened(line: str) -> str:
    if not line.lstrip().startswith('{"'):
        return line
    inside = _inside(line)
    return line if inside is None else inside


def _inside(line: str) -> str | None:
    """The message of one line behind its clock, None when the line is no envelope."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    written = {name.lower(): name for name in entry}
    key = next((written[name] for name in _MESSAGES if isinstance(entry.get(written.get(name, "")), str)), None)
    if key is None or any(
        name != key and name.lower() not in _AROUND and not _JOURNAL.fullmatch(name) for name in entry
    ):
        return None
    if len(entry) == 1 and key != "log":
        return None
    message = entry[key].rstrip("\r\n").replace("\n", " ")
    stamp = next((entry[name] for name in _TIMES if name in entry), None)
    rank = entry.get("rank")
    prefix = f"[rank{rank}]: " if isinstance(rank, int) else ""
    return f"{prefix}{_clock(stamp)}{message}"


def _clock(stamp: object) -> str:
    if isinstance(stamp, str) and _DIGITS.fullmatch(stamp):
        stamp = int(stamp)
    if isinstance(stamp, int | float):
        seconds = next((stamp / unit for unit in _UNITS if 1e9 < stamp / unit < 1e11), None)
        return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S.%f} "
    return f"{stamp.removesuffix('Z')} " if isinstance(stamp, str) and len(stamp) < 40 else ""
