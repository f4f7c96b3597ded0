from __future__ import annotations

import pytest

from tests.parsers.door import batches, sniffed
from trainlens.errors import InputError
from trainlens.parsers import csv, wandb_table

HEADER = '"Name","State","Notes","User","Tags","Created","Runtime","Sweep","lr","train/loss"\n'
TABLE = HEADER + '"brave-sun-1","finished","-","me","","2024-05-01T10:00:00.000Z","100","","0.001","1.5"\n'


def test_a_table_of_runs_is_refused_with_the_way_to_the_curves() -> None:
    with pytest.raises(InputError, match="one row for each") as raised:
        batches(wandb_table, TABLE, "wandb_export.csv")
    assert "history" in raised.value.hint


@pytest.mark.parametrize(
    ("content", "sure"),
    [
        (TABLE, True),
        ("\ufeff" + TABLE, True),
        (TABLE.replace('"', ""), True),
        ('"Step","brave-sun-1 - train/loss"\n"0","2.5"\n', False),
        ("Name,State,loss\na,b,1\n", False),
        ('"Name', False),
        ("", False),
    ],
)
def test_sniff(content: str, sure: bool) -> None:
    score = sniffed(wandb_table, content, "wandb_export.csv")
    assert (score > sniffed(csv, content, "wandb_export.csv")) == sure
