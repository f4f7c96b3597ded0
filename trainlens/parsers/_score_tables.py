"""Tables of scores: a row a checkpoint and a column a benchmark, or a row a benchmark and a column a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainlens import catalog
from trainlens.later import Later
from trainlens.model import Points
from trainlens.parsers._benchmarks import are_scores, checkpoint, checkpoints, is_benchmark
from trainlens.parsers._tables import Table, add_series

if TYPE_CHECKING:
    import polars as pl
else:
    pl = Later("polars")


def with_steps(names: Sequence[str], table: Table) -> Table:
    """A table of scores under "bench/", at the steps that the checkpoints name; others as they are.

    `names` are those of the whole file: a block of it may lack some.
    """
    if not are_scores(names):
        return table
    column = checkpoints(names)
    if column in table.texts and column and not any(catalog.axis(name) == "step" for name in names):
        steps = np.array([np.nan if (at := checkpoint(text)) is None else at for text in table.texts.pop(column)])
        add_series(table, "step", pl.Series(steps, dtype=pl.Float64).fill_nan(None))
    tags = {name: f"bench/{name}" if is_benchmark(name) and name[:6] != "bench/" else name for name in table.columns}
    table.columns = {tags[name]: column for name, column in table.columns.items()}
    table.present = {tags[name]: mask for name, mask in table.present.items()}
    return table


def summary(names: Sequence[str], table: Table) -> Iterator[Points]:
    """OpenCompass' summary: a point for each benchmark and model, at the step of the checkpoint that the model is."""
    models = names[4:]
    for model in models:
        step, run = checkpoint(model), "" if len(models) == 1 else model
        for at in range(len(table.lines)):
            row = table.row(at)
            try:
                score = float(row.get(model, "-"))
            except ValueError:
                continue
            steps = None if step is None else np.array([step], np.int64)
            tag = f"bench/{row.get('dataset', '')}"
            yield Points(tag, steps, np.array([score], np.float64), origin=table.lines[at : at + 1], run=run)
