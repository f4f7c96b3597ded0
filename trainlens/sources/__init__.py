"""Files: how they are found under a path, opened whatever holds or compresses them, and sorted into runs.

A Source is one file: on a disk, within an archive, at an address, or what came through a pipe. Its bytes are read
through it alone, so that parsers need not care, and nothing but this room touches the file system while a run is read.
"""

from trainlens.sources.finding import Found, find, inner_last, real_path, shown
from trainlens.sources.grouping import RunFile, RunFiles, group
from trainlens.sources.source import BLOCK, HEAD, Source
from trainlens.sources.unpacking import binary, compression, foreign

__all__ = [
    "BLOCK",
    "HEAD",
    "Found",
    "RunFile",
    "RunFiles",
    "Source",
    "binary",
    "compression",
    "find",
    "foreign",
    "group",
    "inner_last",
    "real_path",
    "shown",
]
