"""The log reader: from a Publisher's log to the distribution database.

.. code-block:: text

    sources   peek, or live ──► planner ──► store: transactions, commands, mark in one commit
                    ▲                          │
                    └──── confirm ◄────────────┘

After any failure, reading resumes at the end of the store: transactions that arrive a second time are dropped
by their commit LSN. `engine` controls the sequence of operations; it runs on servers (`reader`) and in virtual
time.
"""

from __future__ import annotations

from twopc.publisher.log_reader.engine import LogReaderEngine
from twopc.publisher.log_reader.ports import LogReaderProfile, PassResult
from twopc.publisher.log_reader.reader import LogReader

__all__ = ["LogReader", "LogReaderEngine", "LogReaderProfile", "PassResult"]
