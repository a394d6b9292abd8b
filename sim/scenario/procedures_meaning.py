"""Checks of published routines: whether they refer to existing names, and can be played.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else.
"""

from __future__ import annotations

import re

from twopc import lexer
from twopc.sim.scenario.expectations import Expect
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.procedures import Procedure
from twopc.sim.scenario.reach import refuse_without
from twopc.sim.scenario.steps_meaning import check_scripts
from twopc.sim.scenario.text import Document, Path

_KEY = re.compile(r'(?P<name>[^\W\d]\w*|"(?:[^"]|"")+")(?:\((?P<types>[^()]*)\))?')


def name_of(key: str) -> tuple[str, str | None]:
    """Return name and argument types of a key: ``give_raise``, ``give_raise(numeric)``; the types are None if not
    given.
    """
    match = _KEY.fullmatch(key.strip())
    if match is None:
        return key, None
    return next(lexer.tokens(match["name"])).name, match["types"]


def _created(body: str) -> str:
    """Return the name of the routine in schema public that a text creates; empty if it is another statement."""
    statements = lexer.statements(body)
    if len(statements) != 1:
        return ""
    message = iter([token.name or token.text for token in statements[0]])
    verb = next(message)
    kind = next(message, "")
    if kind == "or" and next(message, "") == "replace":
        kind = next(message, "")
    name, following = next(message, ""), next(message, "")
    if name == "public" and following == ".":
        name, following = next(message, ""), next(message, "")
    return (
        name if verb == "create" and kind in ("procedure", "function") and following == "(" else ""
    )


def check_procedures(document: Document, scenario: Scenario) -> None:
    """Record the errors of routines, and of sessions at read-only Subscribers."""
    for name, procedure in scenario.procedures.items():
        if not procedure.hole:
            _procedure(document, scenario, name, procedure)
    for name, session in scenario.sessions.items():
        if session.plain:
            continue
        for key, nodes in (("node", (session.node,)), ("also", session.also)):
            for place, node in enumerate(nodes):
                if scenario.only_reads(node) and any(
                    step.statements or step.action in ("begin", "commit", "rollback")
                    for _, step in session.named_steps
                ):
                    at: Path = ("sessions", name, key)
                    document.error(
                        at if key == "node" else (*at, place),
                        f"'{node}' is read only and takes no part in global transactions; "
                        "write {plain: true}, or let the session only sync",
                    )


def _procedure(document: Document, scenario: Scenario, name: str, procedure: Procedure) -> None:
    at: Path = ("procedures", name)
    refuse_without(document, scenario, at)
    requested, _ = name_of(name)
    if _KEY.fullmatch(name.strip()) is None:
        document.error(
            at, f"'{name}' is no routine's name: write give_raise, or give_raise(numeric)", key=True
        )
        return
    created = _created(procedure.body)
    if not created:
        document.error(
            (*at, "body"),
            "'body' is one statement, CREATE PROCEDURE or CREATE FUNCTION, in schema public",
        )
    elif created != requested:
        document.error(
            (*at, "body"),
            f"'body' creates '{created}', but the key is '{requested}': write the same name in both",
        )
    for key in ("reads", "writes"):
        for place, table in enumerate(getattr(procedure, key) or ()):
            if table not in scenario.tables:
                document.unknown((*at, key, place), "table", table, scenario.tables)
    check_scripts(document, (*at, "at_subscribers"), procedure.at_subscribers)
    if procedure.at_subscribers and not any(
        map(scenario.only_reads, scenario.topology.subscribers)
    ):
        document.error(
            (*at, "at_subscribers"),
            "calls reach only read-only Subscribers, and there is none: subscribers: {sub1: {update: read only}}",
            key=True,
        )
    if procedure.type == "proc schema only" and procedure.xact_abort == "off":
        document.error(
            (*at, "xact_abort"),
            "no call of it ever travels, so there is nothing to be told of a failure",
            key=True,
        )


def check_commands(document: Document, scenario: Scenario, at: Path, expect: Expect) -> None:
    """Record the errors of `commands` and `diverged`."""
    subscribers = scenario.topology.subscribers
    for key in ("commands", "diverged"):
        text = getattr(expect, key)
        if text:
            refuse_without(document, scenario, (*at, key))
        for node in text:
            if node not in subscribers:
                document.unknown((*at, key, node), "Subscriber", node, subscribers, key=True)
    for node, commands in expect.commands.items():
        if not commands.hole and commands.calls is None and commands.rows is None:
            document.error((*at, "commands", node), "say how many: {calls: 1, rows: 0}")
    for node, tables in expect.diverged.items():
        for place, table in enumerate(tables):
            if table not in scenario.tables:
                document.unknown((*at, "diverged", node, place), "table", table, scenario.tables)
    if expect.diverged and expect.converged:
        document.error(
            (*at, "converged"),
            "'diverged' says which tables differ; they cannot be expected to be equal too",
            key=True,
        )
