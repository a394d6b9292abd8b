"""The rows that a load works on, made before it begins."""

from __future__ import annotations

from twopc.sim.scenario.model import Scenario


def filled(scenario: Scenario) -> Scenario:
    """The scenario with a row for each key from 1 to `count`.

    Rows that the file lists stay; the others are like the last of them, or all of defaults if it lists none.
    """
    keys = scenario.workload.keys_of if scenario.workload is not None else None
    if keys is None:
        return scenario
    table = scenario.tables[keys.table]
    (column,) = table.key_columns
    there = {str(row.get(column)) for row in table.rows}
    like = table.rows[-1] if table.rows else {}
    made = tuple(
        {**like, column: str(key)} for key in range(1, keys.count + 1) if str(key) not in there
    )
    full = table.model_copy(update={"rows": (*table.rows, *made)})
    return scenario.model_copy(update={"tables": {**scenario.tables, keys.table: full}})
