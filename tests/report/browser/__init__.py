"""Opens the HTML report in a real browser: ``python -m tests.report.browser``."""

from __future__ import annotations
