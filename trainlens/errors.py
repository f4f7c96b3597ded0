"""Errors for what the user can mend; everything else is a bug and shows its traceback."""

from __future__ import annotations


class TrainlensError(Exception):
    """Something the user can mend.

    `what` says what happened, `where` names the file, option or value, `hint` says what to do.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}. {self.hint}" if self.hint else text


class InputError(TrainlensError):
    """An input that cannot be read at all: missing, empty, of no known format, no permission."""


class SettingsError(TrainlensError):
    """An unknown or impossible setting, wherever it was written."""


class PluginError(TrainlensError):
    """A plug-in that cannot be loaded or breaks its contract."""
