"""Compressed bytes become plain ones, up to where they end or are damaged. Part of `sources`.

gzip, bzip2, xz and Zstandard alike: members one after another are one stream, zeros between and behind them are only
padding, a missing end is the normal tail of a file that is being written. What goes wrong is told once, with its byte
in the compressed file. A stream that grows beyond all measure is broken off.

Formats: https://www.rfc-editor.org/rfc/rfc1952, https://tukaani.org/xz/xz-file-format.txt,
https://www.rfc-editor.org/rfc/rfc8878
"""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from trainlens.model import Note

MAGIC = 10  # bytes that tell the compression
FREE = 256 << 20  # bytes that any file may unpack to
RATIO = 500  # times its own size: what logs do not reach, and what is made to fill a memory does

_MOST = 1 << 20  # bytes unpacked at once
_PIECE = 64 << 10  # compressed bytes taken at once
_ZST_PIECE = 4 << 10  # its decoder knows no bound on what it gives: 32,000 times as much at worst
_WINDOW = 1 << 28
_XZ_MEMORY = 1 << 30

_KINDS = (
    (re.compile(rb"\x1f\x8b\x08"), "gz"),
    (re.compile(rb"[\x50-\x5f]\x2a\x4d\x18|\x28\xb5\x2f\xfd"), "zst"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "bz2"),
)
_NAMES = {"gz": "gzip", "zst": "Zstandard", "xz": "xz", "bz2": "bzip2"}
_FOREIGN = (
    (b"7z\xbc\xaf\x27\x1c", "an archive of 7-Zip, which is not read: unpack it first (7z x)"),
    (b"Rar!\x1a\x07", "a RAR archive, which is not read: unpack it first (unrar x)"),
    (b"\x04\x22\x4d\x18", "compressed with LZ4, which is not read: unpack it first (lz4 -d)"),
    (b"LZIP\x01", "compressed with lzip, which is not read: unpack it first (lzip -d)"),
    (b"\x1f\x9d", "compressed with compress (.Z), which is not read: unpack it first (gzip -d)"),
    (b"\xff\x06\x00\x00sNaPpY", "compressed with Snappy, which is not read: unpack it first"),
)

# Weights, arrays, pictures and programs; safetensors begin with a length and JSON.
_BINARY = re.compile(
    rb"PK\x03\x04|\x93NUMPY|\x89HDF|GGUF|PAR1|ARROW1|\x80[\x02-\x05]|\x89PNG|\xff\xd8\xff|GIF8|%PDF|\x7fELF"
    rb"|.{4}\0{4}\{\"",
    re.S,
)
_CONTROLS = bytes(byte for byte in (*range(1, 32), 127) if byte not in b"\b\t\n\f\r\x1b")
_FEW = 50  # of so many bytes of a text at most one is a control character; NULs are what a lost block leaves

Tell = Callable[[Note], None]


def compression(head: bytes) -> str:
    """ "gz", "zst", "xz", "bz2" or "" from the first bytes of a file."""
    return next((kind for magic, kind in _KINDS if magic.match(head)), "")


def foreign(head: bytes) -> str:
    """What a file is that must be unpacked by other means first, and by which; "" for any other."""
    return next((words for magic, words in _FOREIGN if head.startswith(magic)), "")


def binary(head: bytes) -> bool:
    """Whether this is the head of no text at all, in any encoding that logs have."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16
        return False
    if _BINARY.match(head):
        return True
    return len(head) - len(head.translate(None, _CONTROLS)) > len(head) / _FEW


def unpacked(raw: BinaryIO, kind: str, tell: Tell) -> Iterator[bytes]:
    """The plain bytes in pieces of a megabyte at most. `raw` stands at its beginning and can go back there."""
    frame, begin, at, made = _frame(kind), 0, 0, 0
    size = _ZST_PIECE if kind == "zst" else _PIECE
    data = raw.read(size)
    while data:
        given = 0
        try:
            for piece in _pieces(frame, kind, data):
                given += len(piece)
                yield piece
                made += len(piece)
                if made > max(FREE, RATIO * (at + len(data))):
                    tell(Note("limit", f"unpacks to more than {RATIO} times its size: the rest is left out", byte=at))
                    return
        except _errors(kind) as problem:
            yield from _until_damage(raw, kind, begin, at, data, given, tell, str(problem))
            return
        if not frame.eof:
            at += len(data)
            data = raw.read(size)
            continue
        rest = frame.unused_data
        at += len(data) - len(rest)
        data = rest
        while not (data := data.lstrip(b"\0")) and (more := raw.read(size)):  # padding
            at, data = at + len(rest), more
            rest = more
        at += len(rest) - len(data)
        if len(data) < MAGIC:
            data += raw.read(size)
        if data and compression(data) != kind:
            what = f"the {_NAMES[kind]} stream ends at byte {at:,}; what stands behind it is none and was left out"
            tell(Note("damaged", what, byte=at))
            return
        if data:
            frame, begin = _frame(kind), at
    if not frame.eof and at:
        what = f"the {_NAMES[kind]} stream ends early, at byte {at:,}: what came before is read"
        tell(Note("cut-off", what, byte=at))


def _frame(kind: str) -> Any:
    if kind == "gz":
        return zlib.decompressobj(wbits=31)
    if kind == "xz":
        return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
    if kind == "bz2":
        return bz2.BZ2Decompressor()
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()


def _errors(kind: str) -> tuple[type[Exception], ...]:
    if kind != "zst":
        return (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError)
    import zstandard

    return (zstandard.ZstdError,)


def _pieces(frame: Any, kind: str, data: bytes) -> Iterator[bytes]:
    """What one piece of compressed bytes gives, as far as its member goes."""
    while True:
        piece = frame.decompress(data) if kind == "zst" else frame.decompress(data, _MOST)
        if piece:
            yield piece
        if kind == "zst" or frame.eof:
            return
        if kind == "gz":
            data = frame.unconsumed_tail
            if not data and len(piece) < _MOST:
                return
        else:
            data = b""
            if frame.needs_input:
                return


def _until_damage(
    raw: BinaryIO, kind: str, begin: int, at: int, data: bytes, given: int, tell: Tell, problem: str
) -> Iterator[bytes]:
    """What stands before the damage within `data`, beyond the first `given` bytes: read again, byte by byte."""
    raw.seek(begin)
    frame = _frame(kind)
    left = at - begin
    size = _ZST_PIECE if kind == "zst" else _PIECE
    while left and (piece := raw.read(min(size, left))):
        left -= len(piece)
        for _ in _pieces(frame, kind, piece):
            pass
    for number in range(len(data)):
        try:
            for piece in _pieces(frame, kind, data[number : number + 1]):
                fresh = piece[given:]
                given -= len(piece) - len(fresh)
                if fresh:
                    yield fresh
        except _errors(kind) as found:
            at, problem = at + number, str(found)
            break
    checksum = "check" in problem
    what = f"the {_NAMES[kind]} stream is damaged at byte {at:,} ({problem}): what came before is read"
    if checksum:
        what = f"the checksum of the {_NAMES[kind]} stream is false at byte {at:,}: what came before is read as it is"
    tell(Note("checksum" if checksum else "damaged", what, byte=at))
