"""The scenario from which random schedules are drawn: one step for everything that a session may do.

It has the Publisher and two Subscribers, a table with a unique column, and another whose rows refer to its rows. Steps
are played in any order and any number of times. Servers check for deadlocks at once, so that the victim is the session
that closed the cycle and not the slowest; no wait times out. No statement changes several rows, since the planner
chooses their order.
"""

from __future__ import annotations

from collections.abc import Iterator

from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model import OrderItem, Scenario

SESSIONS = {"office": "pub", "alice": "sub1", "bob": "sub2"}
ROWS = (1, 2, 3)
NEW = 4

_HEAD = """
twopc: 1
name: drawn
about: Drawn at random.
topology:
  publisher: pub
  subscribers: [sub1, sub2]
  settings: {deadlock_timeout: 1ms}
  timeouts: {step: 5m, lock: 5m, settle: 1m}
tables:
  item:
    columns: {id: int primary key, code: int unique, n: int not null default 0}
    rows: [{id: 1, code: 10, n: 0}, {id: 2, code: 20, n: 0}, {id: 3, code: 30, n: 0}]
  part:
    columns: {id: int primary key, item: int not null references item, n: int not null}
    rows: [{id: 1, item: 1, n: 0}]
expect: {converged: false}
"""


def changes() -> Iterator[tuple[str, str]]:
    """Yield the statements that write or read, each with its name."""
    for row in ROWS:
        yield f"add_{row}", f"update item set n = n + 1 where id = {row}"
        yield f"delete_{row}", f"delete from item where id = {row}"
    for row in (*ROWS, NEW):
        yield f"code_{row}", f"update item set code = 40 where id = {row}"
        yield f"look_{row}", f"select code, n from item where id = {row}"
    for code in (40, 10):
        yield f"insert_{code}", f"insert into item (id, code) values ({NEW}, {code})"
    yield "key", f"update item set id = {NEW} where id = 3"
    yield "part_insert", "insert into part values (2, 2, 0)"
    yield "part_update", "update part set n = n + 1, item = 3 where id = 1"
    yield "part_delete", "delete from part where id = 1"
    yield "parts", "select id, item, n from part order by id"


#: Other steps of a transaction.
STEERING = {
    "save": "savepoint s",
    "back": "rollback to savepoint s",
}
ENDS = ("commit", "rollback")
SYNCS = ("sub1", "sub2")


def _session(name: str, node: str) -> str:
    lines = [f"  {name}:", f"    node: {node}", "    steps:"]
    lines += [f"      - {name}_{word}: {word}" for word in ("begin", *ENDS)]
    lines += [
        f'      - {name}_{word}: {{sql: "{text}"}}'
        for word, text in (*changes(), *STEERING.items())
    ]
    return "\n".join(lines)


def text(steps: str = "[office_begin]") -> str:
    """Return the scenario as a file with one order."""
    sessions = "\n".join(_session(name, node) for name, node in SESSIONS.items())
    return f"{_HEAD}sessions:\n{sessions}\norders:\n  - name: drawn\n    steps: {steps}\n"


SCENARIO: Scenario = parse(text()).scenario


def as_file(items: list[OrderItem]) -> str:
    """Return a schedule as a scenario file, in which a repeated step becomes another step."""
    sessions: dict[str, list[str]] = {name: [] for name in SESSIONS}
    names: list[str] = []
    texts = dict((*changes(), *STEERING.items()))
    for number, item in enumerate(items, 1):
        if item.sync is not None:
            names.append(f"{{sync: [{', '.join(item.sync)}]}}")
            continue
        session, _, word = (item.step or "").partition("_")
        name = f"{session}_{word}_{number}"
        names.append(name)
        sql = f'{{sql: "{texts[word]}"}}' if word in texts else word
        sessions[session].append(f"      - {name}: {sql}")
    told = "\n".join(
        f"  {name}:\n    node: {SESSIONS[name]}\n    steps:\n" + "\n".join(lines)
        for name, lines in sessions.items()
        if lines
    )
    order = ",\n            ".join(names)
    return f"{_HEAD}sessions:\n{told}\norders:\n  - name: drawn\n    steps: [{order}]\n"
