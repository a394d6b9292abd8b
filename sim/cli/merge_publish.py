"""``twopc merge publish, unpublish, subscribe, unsubscribe``: articles and subscriptions of existing servers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twopc.sim.cli.merge_place import MergeNodes, with_merge
from twopc.sim.cli.merge_snapshot import SnapshotLocation, files_counted, source_of
from twopc.sim.cli.place import Folder, table_of
from twopc.sim.cli.publish import Table
from twopc.sim.cli.subscribe import Subscriber

if TYPE_CHECKING:
    from twopc.merge.ranges import IdentityRanges
    from twopc.sim.merge import MergeTopology
    from twopc.sim.merge.delivery import InitialisationReport


Tracking = Annotated[
    Literal["row", "column"],
    typer.Option(help="Two changes of one row are a conflict, or only two of one column."),
]
Rowguid = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="A uuid column by which rows are known at every node. Default: rowguid, which is added.",
    ),
]
RowFilter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="CONDITION",
        help="Only rows that satisfy the condition at a Subscriber.",
    ),
]
Resolver = Annotated[
    str | None,
    typer.Option(
        metavar="RESOLVER",
        help="Resolver of conflicts, as 'additive(stock)'. Default: by priority.",
    ),
]
Compensate = Annotated[
    bool,
    typer.Option("--compensate", help="Undo a change that cannot be applied where it was made."),
]
Upload = Annotated[
    Literal["normal", "kept", "refused"],
    typer.Option(help="Whether changes at Subscribers are uploaded, kept there, or refused."),
]
Deletes = Annotated[
    Literal["carried", "kept"],
    typer.Option(
        help="Whether deletions are propagated, or kept at the node where they were made."
    ),
]
IdentityRange = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of identity values in a range of a client subscription. Default with ranges: 1000.",
    ),
]
PubIdentityRange = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Number in a range of a server subscription. Default with ranges: 10000."
    ),
]
Threshold = Annotated[
    int | None,
    typer.Option(
        metavar="PERCENT",
        help="Used part of a range from which on a session allots another. Default with ranges: 80.",
    ),
]


def publish(
    table: Table,
    nodes: MergeNodes = None,
    tracking: Tracking = "row",
    rowguid: Rowguid = None,
    row_filter: RowFilter = None,
    resolver: Resolver = None,
    compensate: Compensate = False,
    upload: Upload = "normal",
    deletes: Deletes = "carried",
    identity_range: IdentityRange = None,
    pub_identity_range: PubIdentityRange = None,
    threshold: Threshold = None,
    folder: Folder = None,
) -> None:
    """Publish a table for merging (sp_addmergearticle). Publish all tables before the first subscription.

    The first table makes the database a merge Publisher (sp_replicationdboption): name that node alone then. With one
    of the options of ranges, nodes draw the values of its identity or serial column from ranges of their own.
    """
    from twopc.sim.merge.attachment import attach_publisher

    schema, name = table_of(table)

    async def work(topology: MergeTopology) -> None:
        is_new = not await topology.merges(topology.publisher)
        await topology.install()
        try:
            await topology.publish(
                name,
                schema=schema,
                tracking=tracking,
                rowguid=rowguid,
                row_filter=row_filter,
                resolver=resolver,
                compensate=compensate,
                upload=upload,
                deletes=deletes,
                identity=_ranges(identity_range, pub_identity_range, threshold),
            )
        except BaseException:
            if is_new:
                await topology.uninstall()
            raise

    with_merge(nodes, work, folder=folder, find=attach_publisher)
    print(f"{schema}.{name}: published; next: twopc merge subscribe SUBSCRIBER")


def _ranges(
    subscriber: int | None, publisher: int | None, threshold_percent: int | None
) -> IdentityRanges | None:
    """Return the identity ranges of the options; None if none is given."""
    from twopc.merge.ranges import IdentityRanges

    options = {
        "subscriber": subscriber,
        "publisher": publisher,
        "threshold_percent": threshold_percent,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return IdentityRanges(**given) if given else None


def unpublish(table: Table, nodes: MergeNodes = None, folder: Folder = None) -> None:
    """Drop an article (sp_dropmergearticle). The table is restored to what it was before, with its rows.

    With the last one, all objects and roles of twopc are removed from the database.
    """
    from twopc.drivers.merge.tracking import stored_articles

    schema, name = table_of(table)

    async def work(topology: MergeTopology) -> str:
        await topology.unpublish(name, schema=schema)
        if await stored_articles(await topology.admin(topology.publisher)):
            return ""
        await topology.uninstall()
        return f"; nothing of ours is left in {topology.publisher}"

    left = with_merge(nodes, work, folder=folder)
    print(f"{schema}.{name}: not published any more{left}")


def subscribe(
    subscriber: Subscriber,
    nodes: MergeNodes = None,
    kind: Annotated[
        Literal["client", "server"],
        typer.Option(
            "--type",
            help="client: the first change that reaches the Publisher wins; server: by priority.",
        ),
    ] = "client",
    priority: Annotated[
        float | None,
        typer.Option(metavar="N", help="Of a server subscription: from 0 to less than 100."),
    ] = None,
    publisher: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="NODE", help="The republisher to subscribe at. Default: the Publisher."
        ),
    ] = None,
    host_name: Annotated[
        str | None,
        typer.Option("--host-name", help="HOST_NAME() in filters. Default: the Subscriber's name."),
    ] = None,
    login: Annotated[
        str | None,
        typer.Option("--login", help="SUSER_SNAME() in filters. Default: the Subscriber's name."),
    ] = None,
    snapshot: SnapshotLocation = None,
    folder: Folder = None,
) -> None:
    """Create a Subscriber's subscription to everything that is published (sp_addmergesubscription).

    Creates tables, rows and triggers while the other nodes continue. Name the Publisher and the Subscriber. If it is
    cut off while a snapshot is delivered, run it again: it continues with the next file.
    """
    from twopc.sim.merge.attachment import attach_subscriber

    async def work(topology: MergeTopology) -> InitialisationReport:
        with files_counted(subscriber) as tell:
            return await topology.subscribe(
                subscriber,
                kind=kind,
                priority=priority,
                host_name=host_name,
                login=login,
                snapshot_location=snapshot,
                tell=tell,
            )

    find = partial(attach_subscriber, subscriber=subscriber, publisher=publisher)
    report = with_merge(nodes, work, folder=folder, find=find)
    how = f", priority {priority or 0:g}" if kind == "server" else ""
    how += source_of(report)
    print(
        f"{subscriber}: subscribes{how}; its agent: twopc merge agent {subscriber}, or twopc merge sync"
    )


def unsubscribe(subscriber: Subscriber, nodes: MergeNodes = None, folder: Folder = None) -> None:
    """Drop a subscription at both ends; the rows stay (sp_dropmergesubscription). Changes that were not sent stay unsent."""
    from twopc.sim.merge.attachment import attach_for_unsubscribe

    async def work(topology: MergeTopology) -> None:
        await topology.unsubscribe(subscriber)

    with_merge(
        nodes, work, folder=folder, find=partial(attach_for_unsubscribe, subscriber=subscriber)
    )
    print(f"{subscriber}: does not subscribe any more")
