"""Scenario files that tests of the command line play."""

from __future__ import annotations

_HEAD = """\
twopc: 1
name: account
about: Two copies of an account are written.
tags: [money]
topology: {publisher: pub, subscribers: [sub1, sub2]}
tables:
  account: {columns: {id: int primary key, balance: int not null}, rows: [{id: 1, balance: 100}]}
sessions:
  alice:
    node: sub1
    steps:
      - a_begin: begin
      - a_read:  {sql: "select balance from account where id = 1", save: {bal: balance}}
      - a_write: {sql: "update account set balance = :bal - 10 where id = 1"}
      - a_end:   commit
  bob:
    node: sub2
    steps:
      - b_begin: begin
      - b_read:  {sql: "select balance from account where id = 1", save: {bal: balance}}
      - b_write: {sql: "update account set balance = :bal - 20 where id = 1"}
      - b_end:   commit
orders:
  - name: alice first  # she is quicker
    steps: [a_begin, a_read, b_begin, b_read, a_write, b_write, a_end, b_end]
"""

#: As in the documentation: a listed order, and every order.
ACCOUNT = (
    _HEAD
    + """\
    expect:
      steps:
        b_write: {blocked_by: a_write, then: {rejected: version_mismatch}}
        b_end: rolled back
      tables: {account: {everywhere: [{id: 1, balance: 90}]}}
  - name: every order
    generate: {before: ["a_read < b_write", "b_read < a_write"]}
    expect: {committed: {exactly: 1}, rejected: {version_mismatch: 1}, otherwise: any}
"""
)

#: Two cells and a twin.
BOTH = (
    _HEAD.replace(
        "tables:\n", "matrix: {isolation.pub: [read committed, serializable]}\ntables:\n", 1
    )
    + """\
    expect:
      steps: {b_end: rolled back}
      cells:
        read committed:
          steps: {b_write: {rejected: version_mismatch}}
        serializable:
          steps: {b_write: {rejected: serialization_failure}}
twin: {protections: {version_check: off}, must_fail: no_lost_update, expect: {converged: false}}
"""
)

#: Its expectations are wrong.
WRONG = (
    _HEAD
    + """\
    expect:  # wrongly
      sessions: {alice: rolled back}
      steps:
        b_write: ok  # he is not
        b_end: rolled back
"""
)

#: Its steps may end in any way.
OPEN = _HEAD + "    expect: {otherwise: any}\n"

#: Bob's step can never end.
STUCK = (
    _HEAD.replace("b_write, a_end, b_end]", "b_write, {wait: b_write done}, a_end, b_end]")
    + """\
    expect: {steps: {b_write: {rejected: version_mismatch}, b_end: rolled back}}
"""
)

#: Its outcome is random.
CHANCE = """\
twopc: 1
name: chance
about: A row is changed, or is not.
topology: {publisher: pub, subscribers: [sub1]}
tables: {t: {columns: {id: int primary key, v: int}, rows: [{id: 1, v: 0}]}}
sessions:
  a: {node: pub, steps: [{draw: {sql: "update t set v = v + 1 where random() < 0.5"}}]}
orders: [{name: one, steps: [draw]}]
"""
