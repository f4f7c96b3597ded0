"""The flags that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Log files, run directories, archives, addresses (s3://...), - for stdin.",
        show_default=False,
    ),
]
Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="Settings file instead of trainlens.toml or pyproject.toml."),
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="DIR|FILE|-", help="Where reports go; `analyze` alone: trainlens-report/."),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME.OPTION=VALUE", help="Set a detector's threshold or a report's option. Repeatable."
    ),
]
Parser = Annotated[
    list[str] | None,
    typer.Option(
        "--parser",
        metavar="[PATTERN=]NAME",
        help="Read every file, or those of a pattern, so. Repeatable.",
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="RAW=CANONICAL", help="What a name means, e.g. dt=step_time:ms or n=step. Repeatable."
    ),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option("--pattern", metavar="REGEX", help="Read matching lines: named groups are the metrics. Repeatable."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Read everything anew and keep nothing.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", metavar="N", help="Processes that share the runs. Default: 1.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="The verdict alone, no progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also evidence, every check and every note.")]
Width = Annotated[int | None, typer.Option("--width", metavar="N", help="Columns of the terminal report.")]
Formats = Annotated[
    list[str] | None,
    typer.Option("--format", "-f", metavar="NAME", help="Report to make, see `trainlens list reports`. Repeatable."),
]
Select = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="DETECTOR", help="Run these detectors only. Repeatable, patterns too."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="DETECTOR", help="Leave these detectors out. Repeatable, patterns too."),
]
Require = Annotated[
    list[str] | None,
    typer.Option("--require", metavar="TARGET", help="What runs must hold, e.g. 'eval/loss <= 2.1'. Repeatable."),
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="PATH", help="Run, or golden values, that runs are held against.")
]
AcceptedFile = Annotated[
    str | None, typer.Option("--accepted", metavar="FILE", help="Findings that were looked at and accepted.")
]
WriteBaseline = Annotated[
    str | None, typer.Option("--write-baseline", metavar="FILE", help="Write the run as golden values, judge nothing.")
]
WriteAccepted = Annotated[
    str | None, typer.Option("--write-accepted", metavar="FILE", help="Write all that is found now as accepted.")
]
