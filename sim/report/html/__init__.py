"""A run as one HTML page, readable without network, server and script."""

from __future__ import annotations

from twopc.sim.report.html.page import page

__all__ = ["page"]
