"""Conversion of a change in the log into commands, one per article that the changed row belongs to.

Pure, and on the hot path: how a relation's changes become commands is determined once per relation that the
log announces, and kept as closures. Values are PostgreSQL's text, as bytes.

The package knows neither where changes come from nor where commands go. The caller determines which images of a row
satisfy a row filter (`twopc.publisher.filters`).
"""

from __future__ import annotations

from twopc.publisher.commands.builder import Belonging, CommandBuilder
from twopc.publisher.commands.rows import Command

__all__ = ["Belonging", "Command", "CommandBuilder"]
