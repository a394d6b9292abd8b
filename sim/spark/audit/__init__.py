"""Audits: comparison of an archive with the rows and deliveries at the nodes."""

from __future__ import annotations
