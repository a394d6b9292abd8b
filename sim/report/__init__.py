"""What a run has to say: its history, and everything that is computed from it."""

from __future__ import annotations
