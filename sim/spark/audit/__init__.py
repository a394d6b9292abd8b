"""Audits: what an archive says was done, held against what the nodes have."""

from __future__ import annotations
