"""A recorder that keeps all records."""

from __future__ import annotations

from typing import Any


class Kept:
    """Implements `twopc.sim.model.ports.RecorderPort`."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.drawn: dict[str, Any] = {}

    def write(self, kind: str, **fields: Any) -> None:
        """Keep a record."""
        self.records.append((kind, fields))

    def drew(self, name: str, value: Any) -> None:
        """Keep a drawn parameter."""
        self.drawn[name] = value
