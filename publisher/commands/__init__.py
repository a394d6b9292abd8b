"""From a change in the log to the commands that travel, one per article that the changed row belongs to.

Pure, and on the hot path: how a relation's changes become commands is worked out once per relation that the
log announces, and kept as closures. Values come as PostgreSQL's text and stay bytes. `CommandReader` leads from
messages to commands directly, where messages look like others before.

Knows neither where changes come from nor where commands go. Which images of a row fulfil a row filter is
said by the caller (`twopc.publisher.filters`).
"""

from __future__ import annotations

from twopc.publisher.commands.builder import Belonging, CommandBuilder
from twopc.publisher.commands.reader import CommandReader
from twopc.publisher.commands.rows import Command

__all__ = ["Belonging", "Command", "CommandBuilder", "CommandReader"]
