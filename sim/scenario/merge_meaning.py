"""Checks of keys that belong to one kind of replication only, and of priorities and conflicts in merge replication.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from twopc.errors import ArticleError, ConfigurationError
from twopc.merge import resolvers
from twopc.merge.protections import MergeProtection
from twopc.sim.merge.shape import MergeTree
from twopc.sim.scenario.expectations import MERGE_FIELDS, Expect
from twopc.sim.scenario.merge_filters import check_filters
from twopc.sim.scenario.merge_parts import CONFLICTS, MergeConflictExpect
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.parts import Part
from twopc.sim.scenario.steps import OF_SUBSCRIPTIONS
from twopc.sim.scenario.tables import REPUBLISHING, ScenarioTable, Subscriber
from twopc.sim.scenario.text import Document, Path

_OF_UPDATING = "goes with 'replication: updating', and this scenario merges"
_OF_MERGE = "goes with 'topology: {replication: merge}'"
_PROTECTIONS = frozenset(map(str, MergeProtection))
#: Items of orders that exist in merge replication only.
_ITEMS = ("age", "backup", "restore_backup", "add_column", "drop_column", "widen_column")
#: Keys of tables and of expectations that do not apply to merge replication.
_TABLE_KEYS = ("published", "filter", "propagate", "procedures")
_EXPECT_KEYS = (
    "atomic", "prepared_left", "versions_move_forward", "echoed", "no_lost_update",
    "each_change_applied_once", "commands", "diverged",
)  # fmt: skip


def check_kind(document: Document, scenario: Scenario) -> None:
    """Record keys of the other kind of replication, and the errors specific to this kind."""
    if scenario.merges:
        for path in _updating(scenario):
            hint = ": write 'merge: {filter: …}'" if path[::2] == ("tables", "filter") else ""
            document.error(path, f"'{path[-1]}' {_OF_UPDATING}{hint}", key=True)
        _tree(document, scenario)
        _steps(document, scenario)
        check_filters(document, scenario)
        for name, table in scenario.tables.items():
            _identity(document, name, table)
            _resolver(document, name, table)
        for name, subscriber in scenario.subscribers.items():
            _subscription(document, ("subscribers", name, "merge"), subscriber)
        for at, expect in scenario.expectations():
            _conflicts(document, scenario, at, expect)
    else:
        for place, order in enumerate(scenario.orders):
            for number, item in enumerate(order.steps):
                for word in _ITEMS:
                    if getattr(item, word) is not None:
                        at = ("orders", place, "steps", number)
                        document.error(at, f"'{word.replace('_', ' ')}' {_OF_MERGE}")
        if scenario.topology.republishers:
            at = ("topology", "republishers")
            document.error(at, f"'republishers' is refused: {REPUBLISHING}", key=True)
        if scenario.topology.snapshot != "none":
            document.error(("topology", "snapshot"), f"'snapshot' {_OF_MERGE}", key=True)
        for path in _merging(scenario):
            document.error(path, f"'{path[-1]}' {_OF_MERGE}", key=True)
    _faults(document, scenario)
    for place, twin in enumerate(scenario.twins):
        for name in twin.protections:
            if (name in _PROTECTIONS) != scenario.merges:
                why = _OF_UPDATING if scenario.merges else _OF_MERGE
                document.error(("twin", place, "protections", name), f"'{name}' {why}", key=True)


def _named(at: Path, part: Part, names: Collection[str]) -> Iterator[Path]:
    """Yield the places of those keys in `names` that the file uses in a part."""
    if part.hole:
        return
    for field, info in type(part).model_fields.items():
        if field in names and field in part.model_fields_set:
            yield (*at, info.alias or field)


def _updating(scenario: Scenario) -> Iterator[Path]:
    yield from _named((), scenario, ("procedures", "workload", "replay", "thresholds"))
    yield from _named(("topology",), scenario.topology, ("shipping", "commit", "distribution"))
    for name, table in scenario.tables.items():
        yield from _named(("tables", name), table, _TABLE_KEYS)
    for name, subscriber in scenario.subscribers.items():
        others = Subscriber.model_fields.keys() - {"merge", "sql", "hole", "holes"}
        yield from _named(("subscribers", name), subscriber, others)
    for name, session in scenario.sessions.items():
        yield from _named(("sessions", name), session, ("also", "way", "plain"))
    for at, expect in scenario.expectations():
        yield from _named(at, expect, _EXPECT_KEYS)
        for name, step in expect.steps.items():
            yield from _named((*at, "steps", name), step, ("delivered", "calls"))


def _merging(scenario: Scenario) -> Iterator[Path]:
    for name, table in scenario.tables.items():
        yield from _named(("tables", name), table, ("merge",))
    for name, subscriber in scenario.subscribers.items():
        yield from _named(("subscribers", name), subscriber, ("merge",))
    for at, expect in scenario.expectations():
        yield from _named(at, expect, ("conflicts", "nothing_lost"))
        for name, step in expect.steps.items():
            yield from _named((*at, "steps", name), step, MERGE_FIELDS)


def _tree(document: Document, scenario: Scenario) -> None:
    """Record republishers that do not form a tree."""
    topology = scenario.topology
    at: Path = ("topology", "republishers")
    seen: dict[str, str] = {}
    for name, below in topology.republishers.items():
        if name not in topology.subscribers:
            document.unknown((*at, name), "Subscriber", name, topology.subscribers, key=True)
        for place, each in enumerate(below):
            here = (*at, name, place)
            if each not in topology.subscribers:
                document.unknown(here, "Subscriber", each, topology.subscribers)
            elif each in seen:
                document.error(here, f"'{each}' subscribes at '{seen[each]}' already")
            seen.setdefault(each, name)
        if below and scenario.subscriber(name).merge.type != "server":
            document.error(
                (*at, name),
                f"'{name}' publishes what it receives, so its own subscription is a server's (21087): "
                f"subscribers: {{{name}: {{merge: {{type: server, priority: 75}}}}}}",
                key=True,
            )
    if not document.errors:
        try:
            MergeTree(topology.tree)
        except ConfigurationError as error:
            document.error(at, str(error), key=True)


def _steps(document: Document, scenario: Scenario) -> None:
    for at, _, _, step in scenario.placed_steps():
        if step.action in OF_SUBSCRIPTIONS and step.action != "reinitialise":
            document.error(at, f"'{step.action}' {_OF_UPDATING}")


def _subscription(document: Document, at: Path, subscriber: Subscriber) -> None:
    merge = subscriber.merge
    if subscriber.hole or merge.hole or merge.priority is None:
        return
    at = (*at, "priority")
    if merge.type == "client":
        document.error(
            at,
            "a client subscription has no priority (20044): write {type: server, priority: 75}",
        )
    elif not 0 <= merge.priority < 100:
        document.error(
            at,
            f"priority {merge.priority} is not from 0 to less than the Publisher's 100 (20049, 20088)",
        )


def _identity(document: Document, name: str, table: ScenarioTable) -> None:
    """Record impossible identity ranges, and initial rows with values in the identity column."""
    if table.hole or table.merge.hole or table.merge.identity is None or table.merge.identity.hole:
        return
    at: Path = ("tables", name, "merge", "identity")
    for key, problem in table.merge.identity.ranges.problems():
        document.error((*at, key), problem)
    counting = table.counting_columns
    if len(counting) != 1:
        held = " and ".join(counting) or "none"
        document.error(
            at,
            f"identity ranges need one column that is serial or an identity: '{name}' has {held}",
            key=True,
        )
        return
    for place, row in enumerate(table.rows):
        if counting[0] in row:
            document.error(
                ("tables", name, "rows", place, counting[0]),
                f"the values of '{counting[0]}' are drawn, and this one was not: leave the column out",
                key=True,
            )


def _resolver(document: Document, name: str, table: ScenarioTable) -> None:
    """Record a supplied resolver that does not exist, or whose column the table does not have."""
    text = None if table.hole or table.merge.hole else table.merge.resolver
    if text is None or text.startswith((resolvers.PYTHON, resolvers.SQL)):
        return
    at: Path = ("tables", name, "merge", "resolver")
    try:
        column = resolvers.parsed(text, f"table {name}").column
    except ArticleError as error:
        document.error(at, str(error))
        return
    if column and column not in table.columns and not table.sql:  # which may add columns
        document.unknown(at, "column", column, table.columns)


def _conflicts(document: Document, scenario: Scenario, at: Path, expect: Expect) -> None:
    for place, one in enumerate(expect.conflicts or ()):
        if not (one.hole or one.holes):
            _conflict(document, scenario, (*at, "conflicts", place), one)


def _conflict(document: Document, scenario: Scenario, at: Path, one: MergeConflictExpect) -> None:
    nodes = scenario.topology.nodes
    if one.winner is not None and one.winner not in nodes:
        document.unknown((*at, "winner"), "node", one.winner, nodes)
    table = scenario.tables.get(one.table)
    if table is None:
        document.unknown((*at, "table"), "table", one.table, scenario.tables)
        return
    if table.hole:
        return
    for name in one.key:
        if name not in table.key_columns:
            document.unknown((*at, "key", name), "key column", name, table.key_columns, key=True)
    for name in one.loser or ():
        if name not in table.columns:
            document.unknown((*at, "loser", name), "column", name, table.columns, key=True)
    row_tracking = table.merge.tracking == "row"
    if one.type == ("update_update_column" if row_tracking else "update_update"):
        other = next(
            each for each in CONFLICTS if each.startswith("update_update") and each != one.type
        )
        document.error(
            (*at, "type"),
            f"table '{one.table}' is tracked by {table.merge.tracking}: two updates of a row are '{other}' there",
        )


def _faults(document: Document, scenario: Scenario) -> None:
    for place, fault in enumerate(scenario.faults):
        if fault.hole or not fault.at or not fault.do:
            continue
        at: Path = ("faults", place)
        is_merge = fault.at.startswith(("merge.", "merge_delivery."))
        if is_merge and not scenario.merges:
            document.error((*at, "at"), f"the point '{fault.at}' {_OF_MERGE}")
        elif scenario.merges and not is_merge:
            document.error(
                (*at, "at"),
                f"the point '{fault.at}' {_OF_UPDATING}: its points are those of merge sessions, as "
                f"merge.upload_applied({scenario.topology.subscribers[0]})",
            )
        elif fault.at.startswith("merge_delivery.") and scenario.topology.snapshot == "none":
            document.error(
                (*at, "at"),
                f"no snapshot is delivered, so '{fault.at}' is never reached: topology: {{snapshot: before}}",
            )
        elif is_merge:
            _of_agent(document, at, fault.at.partition("(")[2].rstrip(")"), fault.do)
            if fault.when.session is not None or fault.when.gid is not None:
                document.error(
                    (*at, "when"),
                    "a merge session is no transaction of a session's: an occasion of it is {nth: 2}",
                )


def _of_agent(document: Document, at: Path, subscriber: str, do: str) -> None:
    """Record a fault that does not concern the agent at whose point it is to strike."""
    verb, *rest = do.split()
    if verb in ("crash", "pause") and rest != ["agent", subscriber]:
        document.error(
            (*at, "do"),
            f"at a point of {subscriber}'s merge session it is its agent that is struck: {verb} agent {subscriber}",
        )
