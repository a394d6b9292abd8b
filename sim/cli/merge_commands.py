"""``twopc merge``: its commands, from several modules."""

from __future__ import annotations

import typer

from twopc.sim.cli.lazy import LazyGroup

#: Commands in the order of `--help`, each with its place and help text.
_TABLE = {
    "sync": ("merge:sync", "Run one session with each Subscriber."),
    "agent": ("merge:agent", "Run sessions with a Subscriber at an interval."),
    "generations": ("merge:generations", "Show the newest generations of nodes."),
    "publish": ("merge_publish:publish", "Publish a table for merging."),
    "unpublish": ("merge_publish:unpublish", "Drop an article of a merge publication."),
    "snapshot": (
        "merge_snapshot:snapshot",
        "Write initial tables and rows of Subscribers to files.",
    ),
    "subscribe": ("merge_publish:subscribe", "Create a Subscriber's merge subscription."),
    "unsubscribe": ("merge_publish:unsubscribe", "Drop a merge subscription."),
    "status": ("merge_status:status", "Show subscriptions, and what waits between nodes."),
    "ranges": ("merge_status:ranges", "Show which identity values each node holds."),
    "sessions": ("merge_status:sessions", "List the sessions of the last days."),
    "row": ("merge_status:row", "Show which node has which version of a row."),
    "conflicts": ("merge_conflicts:conflicts", "List conflicts and failed changes."),
    "resolve": ("merge_conflicts:resolve", "Resolve a conflict by hand."),
    "validate": (
        "merge_status:validate",
        "Compare rows with the Publisher's, and repair them.",
    ),
    "reinit": ("merge_upkeep:reinit", "Initialise a Subscriber again."),
    "cleanup": ("merge_upkeep:cleanup", "Remove metadata that is no longer needed."),
    "partitions": (
        "merge_upkeep:partitions",
        "Show partitions of a filtered publication, or add one.",
    ),
    "retention": ("merge_upkeep:retention", "Set how long metadata is kept."),
    "rewound": ("merge_upkeep:rewound", "Tell a node that it was restored from a backup."),
    "regenerate": ("merge_upkeep:regenerate", "Enable triggers of merged tables again."),
    "doctor": ("merge_status:doctor", "Find what is wrong that sessions do not notice."),
    "column": ("merge_columns:column", "Add, drop or widen a column of a merged table."),
}


class _MergeCommands(LazyGroup):
    table = _TABLE


merge = typer.Typer(
    cls=_MergeCommands,
    help="Merge replication: run sessions, look at conflicts and generations.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
