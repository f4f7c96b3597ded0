"""The commands: flags to Settings, a call, bytes out, an exit status. Heavy things are imported where they are used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainlens import __version__
from trainlens.exits import OK, of_diagnosis, of_reading
from trainlens.flags import (
    AcceptedFile,
    Baseline,
    Config,
    Formats,
    Ignore,
    Jobs,
    Map,
    NoCache,
    Output,
    Parser,
    Paths,
    Patterns,
    Quiet,
    Require,
    Select,
    Sets,
    Verbose,
    Width,
    WriteAccepted,
    WriteBaseline,
)

if TYPE_CHECKING:
    from trainlens.settings import Settings

app = typer.Typer(
    name="trainlens",
    help="Reads everything a training run wrote and says what went wrong, where, since when, why, and what to do.",
    epilog="Exit status: 0 quiet, 1 findings at or above --fail-on, 2 refused, 3 incomplete.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"trainlens {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version  # answered by its callback


@app.command()
def analyze(
    paths: Paths,
    output: Output = None,
    formats: Formats = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on", metavar="SEVERITY", help="Exit with 1 from info, warning or error on. Default: never."
        ),
    ] = None,
    select: Select = None,
    ignore: Ignore = None,
    sets: Sets = None,
    require: Require = None,
    baseline: Baseline = None,
    accepted: AcceptedFile = None,
    parser: Parser = None,
    names: Map = None,
    patterns: Patterns = None,
    config: Config = None,
    jobs: Jobs = None,
    width: Width = None,
    no_cache: NoCache = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Diagnose runs: the answer in the terminal, HTML and PNG reports on disk."""
    flags: dict[str, Any] = {"output": output, "formats": formats, "fail_on": fail_on, "accepted": accepted}
    flags |= {"select": select, "ignore": ignore, "require": require, "baseline": baseline}
    flags |= {"parser": parser, "map": names, "patterns": patterns, "jobs": jobs, "width": width}
    _judge(paths, _settings(flags, sets, config, no_cache), gate=False, quiet=quiet, verbose=verbose)


@app.command()
def check(
    paths: Paths,
    output: Output = None,
    formats: Formats = None,
    fail_on: Annotated[
        str | None, typer.Option("--fail-on", metavar="SEVERITY", help="Exit with 1 from here on. Default: error.")
    ] = None,
    select: Select = None,
    ignore: Ignore = None,
    sets: Sets = None,
    require: Require = None,
    baseline: Baseline = None,
    accepted: AcceptedFile = None,
    write_baseline: WriteBaseline = None,
    write_accepted: WriteAccepted = None,
    parser: Parser = None,
    names: Map = None,
    patterns: Patterns = None,
    config: Config = None,
    jobs: Jobs = None,
    width: Width = None,
    no_cache: NoCache = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """The same diagnosis as a gate: targets, a baseline, an exit status that says whether the runs pass."""
    flags: dict[str, Any] = {"output": output, "formats": formats, "fail_on": fail_on, "accepted": accepted}
    flags |= {"select": select, "ignore": ignore, "require": require, "baseline": baseline}
    flags |= {"parser": parser, "map": names, "patterns": patterns, "jobs": jobs, "width": width}
    settings = _settings(flags, sets, config, no_cache).for_gate()
    if write_baseline is not None:
        from trainlens import delivery, reading

        delivery.write_baseline(reading.read(paths, settings), write_baseline)
        if write_accepted is None:
            raise typer.Exit(OK)
    _judge(paths, settings, gate=True, quiet=quiet, verbose=verbose, write_accepted=write_accepted)


@app.command()
def inspect(
    paths: Paths,
    parser: Annotated[
        list[str] | None,
        typer.Option(
            "--parser", "--format", "-f", metavar="[PATTERN=]NAME", help="Read every file, or those of a pattern, so."
        ),
    ] = None,
    names: Map = None,
    patterns: Patterns = None,
    config: Config = None,
    no_cache: NoCache = False,
) -> None:
    """Show what was read, how each name was understood, what could not be read."""
    settings = _settings({"parser": parser, "map": names, "patterns": patterns}, None, config, no_cache)
    from trainlens import delivery, inspection, reading

    found = reading.read(paths, settings, samples=True)
    delivery.show(inspection.inspection(found.runs, found.unread, found.samples).encode("utf-8", "replace"))
    raise typer.Exit(of_reading(found))


@app.command()
def export(
    paths: Paths,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE|-", help="Where the table goes.")],
    table_format: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", metavar="NAME", help="parquet, arrow, csv or jsonl. Default: by the file's ending."
        ),
    ] = None,
    all_attempts: Annotated[
        bool, typer.Option("--all-attempts", help="Also the points that a restart did again.")
    ] = False,
    parser: Parser = None,
    names: Map = None,
    patterns: Patterns = None,
    config: Config = None,
    no_cache: NoCache = False,
) -> None:
    """Write all points as one long table, for your own polars, duckdb or pandas."""
    settings = _settings({"parser": parser, "map": names, "patterns": patterns}, None, config, no_cache)
    from trainlens import delivery, reading, store

    chosen = delivery.table_format(table_format, output)
    reading.spare(paths, None if output == delivery.STDOUT else Path(output), settings)
    found = reading.read(paths, settings)
    with delivery.destination(output) as stream:
        store.export(found.runs, stream, chosen, all_attempts)
    raise typer.Exit(of_reading(found))


@app.command()
def explain(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A detector, cause, parser or report.", show_default=False)
    ],
    sets: Sets = None,
    config: Config = None,
) -> None:
    """Show one page: what it looks for, how, with which thresholds from which source, and when it is wrong."""
    from trainlens import delivery, pages

    delivery.show(pages.explain(name, _settings({}, sets, config)).encode())


@app.command("list")
def list_(
    seam: Annotated[
        str | None, typer.Argument(metavar="[SEAM]", help="detectors, causes, parsers or reports.", show_default=False)
    ] = None,
) -> None:
    """List the parsers, detectors, causes and reports."""
    from trainlens import delivery, pages
    from trainlens.settings import nearest

    chosen = [one for one in pages.SEAMS if seam is None or one == seam.rstrip("s") + "s"]
    if not chosen:
        raise typer.BadParameter(f"There is no seam {seam!r}. {nearest(str(seam), pages.SEAMS)}")
    delivery.show(pages.listing(chosen).encode())


@app.command()
def render(
    diagnosis: Annotated[str, typer.Argument(metavar="DIAGNOSIS.json", help="The JSON answer, - for standard input.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="DIR|FILE|-", help="Where the report goes.")] = "-",
    formats: Formats = None,
    sets: Sets = None,
    config: Config = None,
    width: Width = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make any report from a JSON answer, without the logs."""
    settings = _settings({"output": output, "formats": formats, "width": width}, sets, config)
    from trainlens import delivery

    plan = delivery.plan(settings)
    delivery.deliver(delivery.stored(diagnosis), plan, settings, quiet=quiet, verbose=verbose)


@app.command()
def schema() -> None:
    """Show the JSON Schema of the JSON answer."""
    from trainlens import delivery, plugins

    delivery.show(plugins.load("reports", "json").schema())


@app.command("settings")
def settings_(sets: Sets = None, config: Config = None) -> None:
    """Show every setting, its value and where it came from."""
    from trainlens import delivery, pages

    delivery.show(pages.settings_table(_settings({}, sets, config)).encode())


# ---- what commands share -------------------------------------------------------------------------------------------


def _judge(
    paths: list[str], settings: Settings, *, gate: bool, quiet: bool, verbose: bool, write_accepted: str | None = None
) -> None:
    """Read, judge, tell; exit with the status that the answer has."""
    from trainlens import acceptance, analysis, delivery, reading

    plan = delivery.plan(settings)
    reading.spare(paths, plan.file, settings)
    diagnosis = analysis.analyze(paths, settings, progress=delivery.progress(quiet))
    delivery.deliver(diagnosis, plan, settings, quiet=quiet, verbose=verbose)
    if write_accepted is not None:
        entries = acceptance.load(settings.accepted)
        content = acceptance.written(diagnosis, "known before this gate was set up", entries)
        delivery.save(Path(write_accepted), content)
        raise typer.Exit(OK)
    raise typer.Exit(of_diagnosis(diagnosis, settings.fail_on, gate=gate))


def _settings(flags: dict[str, Any], sets: list[str] | None, config: str | None, no_cache: bool = False) -> Settings:
    from trainlens import settings

    return settings.load({**flags, "cache": False if no_cache else None}, sets or [], config=config)
