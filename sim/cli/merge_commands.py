"""Commands of ``twopc merge``, from several modules, in the order of its ``--help``."""

from __future__ import annotations

from twopc.sim.cli.merge import merge
from twopc.sim.cli.merge_columns import column as merge_column
from twopc.sim.cli.merge_conflicts import conflicts, resolve
from twopc.sim.cli.merge_partitions import partitions
from twopc.sim.cli.merge_publish import publish as merge_publish
from twopc.sim.cli.merge_publish import subscribe as merge_subscribe
from twopc.sim.cli.merge_publish import unpublish as merge_unpublish
from twopc.sim.cli.merge_publish import unsubscribe as merge_unsubscribe
from twopc.sim.cli.merge_ranges import ranges as merge_ranges
from twopc.sim.cli.merge_snapshot import snapshot as merge_snapshot
from twopc.sim.cli.merge_status import doctor as merge_doctor
from twopc.sim.cli.merge_status import row, sessions
from twopc.sim.cli.merge_status import status as merge_status
from twopc.sim.cli.merge_status import validate as merge_validate
from twopc.sim.cli.merge_upkeep import cleanup, reinit, retention, rewound
from twopc.sim.cli.merge_upkeep import regenerate as merge_regenerate

__all__ = ["merge"]

_COMMANDS = (
    (merge_publish, "publish", "Publish a table for merging."),
    (merge_unpublish, "unpublish", "Drop an article of a merge publication."),
    (merge_snapshot, "snapshot", "Write what Subscribers begin with into files."),
    (merge_subscribe, "subscribe", "Create a Subscriber's merge subscription."),
    (merge_unsubscribe, "unsubscribe", "Drop a merge subscription."),
    (merge_status, "status", "Show subscriptions, and what waits between nodes."),
    (merge_ranges, "ranges", "Show which identity values each node holds."),
    (sessions, "sessions", "List the sessions of the last days."),
    (row, "row", "Show which node has which version of a row."),
    (conflicts, "conflicts", "List conflicts and failed changes."),
    (resolve, "resolve", "Resolve a conflict by hand."),
    (merge_validate, "validate", "Compare rows with the Publisher's, and repair them."),
    (reinit, "reinit", "Have a Subscriber begin anew."),
    (cleanup, "cleanup", "Remove metadata that is no longer needed."),
    (partitions, "partitions", "Show partitions of a filtered publication, or add one."),
    (retention, "retention", "Set how long metadata is kept."),
    (rewound, "rewound", "Tell a node that it was restored from a backup."),
    (merge_regenerate, "regenerate", "Enable triggers of merged tables again."),
    (merge_doctor, "doctor", "Find what is wrong that sessions do not notice."),
)

for _command, _name, _short in _COMMANDS:
    merge.command(_name, short_help=_short)(_command)
merge.add_typer(
    merge_column, name="column", short_help="Add, drop or widen a column of a merged table."
)
