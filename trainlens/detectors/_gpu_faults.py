"""What the numbers of the NVIDIA driver's Xid messages mean: https://docs.nvidia.com/deploy/xid-errors."""

from __future__ import annotations

import re

from trainlens.model import Event

_XID = re.compile(r"Xid \(([^)]{0,99})\): (\d{1,5})")
_DEVICE = re.compile(r"(?:PCI:)?[\da-fA-F]{4,8}:[\da-fA-F]{2}:[\da-fA-F]{2}")

HARDWARE = {
    38: "A GPU's driver firmware failed", 48: "GPU memory has an uncorrectable ECC error",
    57: "A GPU's memory interface has errors", 58: "A GPU's memory interface is unstable",
    61: "A GPU's own processor stopped", 62: "A GPU's own processor halted",
    63: "GPU memory was taken out of use after ECC errors", 64: "Broken GPU memory could not be taken out of use",
    74: "NVLink has an error", 79: "A GPU has fallen off the bus", 92: "GPU memory has many ECC errors",
    94: "GPU memory has a contained ECC error", 95: "GPU memory has an uncontained ECC error",
    119: "A GPU's system processor does not answer", 120: "A GPU's system processor failed",
    121: "The link of GPU and CPU has an error", 122: "A GPU's flash memory cannot be read",
    123: "A GPU's flash memory cannot be written", 140: "GPU memory has an unrecovered ECC error",
    143: "A GPU could not be started", 154: "A GPU needs a reset or a reboot", 155: "NVLink has an error",
    156: "A part of a GPU was taken out of use", 157: "A broken part of a GPU stays in use",
    158: "A GPU does not answer any more", **dict.fromkeys(range(144, 151), "NVLink has an error"),
}  # fmt: skip
PROGRAM = {
    8: "A GPU stopped working on a program", 13: "A program failed on a GPU", 31: "A program used a bad GPU address",
    32: "A program sent a GPU broken commands", 43: "A GPU stopped a program", 44: "A GPU failed within a program",
    45: "A program on a GPU was ended", 68: "A GPU's video decoder failed", 69: "A program failed on a GPU",
    109: "A GPU could not switch programs in time", 137: "A program used a bad address over NVLink",
}  # fmt: skip


def code(event: Event) -> int | None:
    """The number of an Xid message."""
    found = _XID.search(event.text) if event.kind == "xid" else None
    return int(found[2]) if found else None


def of_hardware(event: Event) -> bool:
    """Whether a device failed, not the program that ran on it."""
    return event.kind in ("gpu-lost", "ecc") or code(event) in HARDWARE


def device(event: Event) -> str | None:
    """The bus that the text names, without the word before and the function behind."""
    found = _DEVICE.search(event.text)
    return found[0].removeprefix("PCI:").lower()[-10:] if found else None
