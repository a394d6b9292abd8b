"""A run as one HTML page that needs no network, no server and no script to be read."""

from __future__ import annotations

from twopc.sim.report.html.page import page

__all__ = ["page"]
