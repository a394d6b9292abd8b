"""The log reader: from a Publisher's log to the distribution database.

.. code-block:: text

    sources   peek, or live ──► planner ──► store: transactions, commands, mark in one commit
                    ▲                          │
                    └── confirm, advance ◄─────┘

Whatever dies in between, reading goes on where the store ends: what comes a second time is dropped by its
commit LSN.
"""

from __future__ import annotations

from twopc.publisher.log_reader.reader import LogReader
from twopc.publisher.log_reader.reading import Read, Reading

__all__ = ["LogReader", "Read", "Reading"]
