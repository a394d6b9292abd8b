"""Checks of sessions: whether their steps are possible, and their SQL is allowed in its transactions.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from twopc import forbidden, lexer
from twopc.sim.scenario import preparation, sqltext
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.reach import check_agent, refuse_without
from twopc.sim.scenario.steps import OF_AGENTS, OF_SUBSCRIPTIONS, Session, Step
from twopc.sim.scenario.text import Document, Path, suggestion

#: Name in a history of the session in which agents act.
AGENTS = "agents"
#: Quotation marks that word processors insert.
_TYPOGRAPHIC = frozenset("“”„‘’‚")
_PROCEDURE = re.compile(r'(?:(?:[^\W\d]\w*|"[^"]+")\.)?(?:[^\W\d]\w*|"[^"]+")')


def check_sessions(document: Document, scenario: Scenario) -> None:
    """Record the errors of the sessions and their steps."""
    _step_names(document, scenario)
    for name, session in scenario.sessions.items():
        _session(document, scenario, name, session)
    for at, texts in ((("setup",), scenario.setup), (("teardown",), scenario.teardown)):
        check_scripts(document, at, texts)


def check_scripts(document: Document, at: Path, texts: tuple[str, ...]) -> None:
    """Record an error for each text without SQL."""
    for place, each in enumerate(texts):
        if not lexer.statements(each):
            document.error((*at, place), "there is no SQL in it")


def check_transactions(
    document: Document, transactions: Mapping[str, Sequence[Step]], at: Path
) -> None:
    """Record the errors of a workload's transactions, which are at `at` in the file."""
    for name, steps in transactions.items():
        for place, step in enumerate(steps):
            path: Path = (*at, name, place)
            if not step.statements and not (step.hole or step.holes):
                document.error(path, "a workload's transaction is made of SQL: {sql: …}")
            if step.at is not None:
                document.error(
                    (*path, "at"), "a workload's client works at one node: leave out 'at'"
                )
            for where, text in step.placed(path):
                _one_statement(document, where, text)
        if not steps:
            document.error((*at, name), f"transaction '{name}' has no steps")


def _step_names(document: Document, scenario: Scenario) -> None:
    seen: dict[str, str] = {}
    for at, _, step, _ in scenario.placed_steps():
        mark = document.mark(at, key=True)
        if step in seen:
            document.error(mark, f"step '{step}' already defined at {seen[step]}")
        elif step in scenario.sessions:
            document.error(mark, f"step '{step}' is called like a session; name it otherwise")
        seen.setdefault(step, document.where(mark, beside=True))


def _session(document: Document, scenario: Scenario, name: str, session: Session) -> None:
    at: Path = ("sessions", name)
    nodes = scenario.topology.nodes
    if session.node and session.node not in nodes:
        document.error(
            (*at, "node"),
            f"session '{name}': no node '{session.node}'{suggestion(session.node, nodes)}",
        )
    _further_subscribers(document, scenario, at, session)
    _committer(document, scenario, at, session)
    if name == AGENTS:
        document.error(
            at, f"'{AGENTS}' are those that deliver; name the session otherwise", key=True
        )
    if not session.steps:
        document.error((*at, "steps"), f"session '{name}' has no steps")
    saved: dict[str, str] = {}
    for place, each in enumerate(session.steps):
        for step_name, step in each.items():
            path: Path = (*at, "steps", place, step_name)
            _step(document, scenario, path, session, step, saved)
            saved |= dict.fromkeys(step.save, step_name)
    for word in ("setup", "teardown"):
        if getattr(session, word) and not session.plain:
            document.error((*at, word), f"'{word}' of a session goes with 'plain: true'", key=True)
        check_scripts(document, (*at, word), getattr(session, word))
    prepares = (
        session.node in scenario.topology.subscribers and scenario.topology.commit != "last_agent"
    )
    if prepares and not session.plain and not session.any_client:
        _lint_prepare(document, at, session, _foreign_tables(scenario, session))


def _further_subscribers(
    document: Document, scenario: Scenario, at: Path, session: Session
) -> None:
    subscribers = scenario.topology.subscribers
    at = (*at, "also")
    for name in session.also:
        if name not in subscribers:
            known = [each for each in subscribers if each != session.node]
            document.unknown(at, "Subscriber", name, known)
    if not session.also:
        return
    if session.node not in subscribers or session.plain:
        document.error(
            at,
            "'also' goes with a session at a Subscriber that works in global transactions",
            key=True,
        )
    elif len({*session.nodes}) != len(session.nodes):
        document.error(at, "name each Subscriber once", key=True)
    if scenario.topology.commit == "last_agent":
        document.error(
            at,
            "the last agent is the one Subscriber whose own commit decides, and here are several; "
            "use another 'commit'",
            key=True,
        )


def _committer(document: Document, scenario: Scenario, at: Path, session: Session) -> None:
    """Record the errors of a session's `way`."""
    if not session.any_client:
        return
    at = (*at, "way")
    if session.node not in scenario.topology.subscribers or session.plain:
        document.error(
            at, "'way: any client' goes with a session at a Subscriber that is not plain", key=True
        )
    elif session.also:
        document.error(
            at,
            "any client's own commit decides, and here are several Subscribers; leave out 'also', or "
            "let a coordinator commit it",
            key=True,
        )


def _node_and_role(document: Document, path: Path, session: Session, step: Step) -> None:
    if step.at is not None and step.at not in session.nodes:
        document.error(
            (*path, "at"),
            f"its session is at {' and '.join(session.nodes)}, not at '{step.at}'"
            + ("" if session.also else "; name the Subscriber under 'also' of the session"),
        )
    if step.role and session.also:
        document.error(
            (*path, "as"), "a session at several Subscribers works as the application", key=True
        )


def _step(
    document: Document,
    scenario: Scenario,
    at: Path,
    session: Session,
    step: Step,
    saved: dict[str, str],
) -> None:
    if step.hole:
        return
    known = [*step.values, *saved]
    is_named_well = _procedure(document, at, step)
    for place, text in step.placed(at) if is_named_well else ():
        for name in sqltext.parameters(text):
            if name not in known and not {"params", "args"} & {*step.holes}:
                hint = (
                    suggestion(name, known)
                    or "; give it under 'params' or 'save' it in an earlier step"
                )
                document.error(place, f"no value for ':{name}'{hint}")
        _one_statement(document, place, text, is_plain=session.plain)
    _script(document, at, session, step)
    _node_and_role(document, at, session, step)
    if step.action in OF_AGENTS:
        refuse_without(document, scenario, at)
        if session.plain:
            document.error(
                at, f"a plain session has no {step.action}: it is none of the topology's"
            )
    if step.action in OF_SUBSCRIPTIONS:
        _of_subscription(document, scenario, at, session, step.action)
    for word in ("pause", "resume"):
        if getattr(step, word) is not None:
            check_agent(document, scenario, (*at, word), getattr(step, word))
    if not step.statements and not step.holes:
        words = {
            **{word: word for word in ("params", "save", "rows", "swallow", "at")},
            "as": "role",
        }
        for word, field in words.items():
            allowed = step.script is not None and word in ("save", "rows", "as")
            if getattr(step, field) and not allowed:
                document.error((*at, word), f"'{word}' goes with SQL", key=True)


def _of_subscription(
    document: Document, scenario: Scenario, at: Path, session: Session, action: str
) -> None:
    if session.node == scenario.topology.publisher:
        why = "the Publisher is never initialised"
        document.error(at, why if action == "reinitialise" else f"the Publisher cannot {action}")
    elif action == "subscribe" and scenario.subscriber(session.node).joins != "later":
        document.error(
            at,
            f"'{session.node}' subscribes before the first step: give it 'joins: later' under 'subscribers'",
        )
    elif action == "unsubscribe" and scenario.lets_any_client(session.node):
        document.error(at, f"'{session.node}' cannot leave while any client may work there")


def _procedure(document: Document, at: Path, step: Step) -> bool:
    """Record the errors in the names of a call. Return whether there are none."""
    if step.call is None:
        return True
    is_right = all(re.fullmatch(r"\w+", name) for name in step.args)
    if _PROCEDURE.fullmatch(step.call) is None:
        is_right = False
        document.error(
            (*at, "call"),
            "'call' is a procedure's name alone; what it is called with goes under 'args'",
        )
    for name in step.args:
        if re.fullmatch(r"\w+", name) is None:
            document.error((*at, "args", name), f"'{name}' is no argument's name", key=True)
    return is_right


def _script(document: Document, at: Path, session: Session, step: Step) -> None:
    if step.script is None:
        return
    if not session.plain:
        document.error(
            (*at, "script"),
            "a script is sent as it stands, past the coordinator: it goes with 'plain: true' of the "
            "session; several statements of a transaction go under 'lines'",
            key=True,
        )
    if not lexer.statements(step.script):
        document.error((*at, "script"), "there is no SQL in it")


def _one_statement(document: Document, place: Path, text: str, *, is_plain: bool = False) -> None:
    """Record an error if a text is not a single statement that a step can send."""
    statements = lexer.statements(text)
    if not statements:
        document.error(place, "there is no SQL in it")
    if control := next(filter(None, map(lexer.transaction_control, statements)), ""):
        document.error(
            place,
            f"{control} does not belong in SQL: transactions are steps of their own "
            "(begin, commit, rollback)" + (", or go into a script" if is_plain else ""),
        )
    elif sqltext.copies(text):
        document.error(place, "COPY through the client has no data here; write insert or select")
    elif curly := _typographic_quote(text):
        document.error(place, f"{curly} is no quotation mark of SQL: write ' around text")
    elif len(statements) > 1:
        document.error(place, "one statement to a text; several go under 'lines'")


def _typographic_quote(text: str) -> str:
    """Return the first typographic quotation mark outside of constants; empty if there is none."""
    words = (token.text for token in lexer.tokens(text) if token.kind in ("word", "mark"))
    return next((letter for word in words for letter in word if letter in _TYPOGRAPHIC), "")


def _foreign_tables(scenario: Scenario, session: Session) -> frozenset[str]:
    """Return the foreign tables that are created at the session's node."""
    texts = [*scenario.subscriber(session.node).sql]
    for table in scenario.tables.values():
        texts += table.procedures
    for _, step in session.named_steps:
        texts += step.statements
    return frozenset().union(*map(preparation.foreign_tables, texts))


def _lint_prepare(document: Document, at: Path, session: Session, foreign: frozenset[str]) -> None:
    """Record statements that PostgreSQL refuses in a transaction that is prepared."""
    results: list[tuple[Path, forbidden.Forbidden]] = []
    opened = False
    locks: set[str] = set()
    for place, each in enumerate(session.steps):
        for name, step in each.items():
            if step.action == "begin":
                opened, results = True, []
            for where, text in step.placed((*at, "steps", place, name)):
                reason = preparation.forbidden_before_prepare(text, foreign)
                own = preparation.advisory_locks(text)
                if reason is None and any(_other_kind(lock) in locks for lock in own):
                    reason = forbidden.BOTH_LOCKS
                locks |= own
                if reason is not None:
                    results.append((where, reason))
            if step.action == "rollback":
                opened, results = False, []
            elif step.action == "commit" or (step.statements and not opened):
                opened = opened and step.action != "commit"
                for where, unfit in results:
                    document.error(
                        where,
                        f"{unfit.what} cannot be in a transaction that is prepared (0A000 at its "
                        f"commit); {unfit.remedy}",
                    )
                results = []


def _other_kind(lock: str) -> str:
    """Return the lock of the same key at the other level: session instead of transaction, or the reverse."""
    kind, _, key = lock.partition(" ")
    return f"{'session' if kind == 'transaction' else 'transaction'} {key}"
