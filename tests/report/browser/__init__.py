"""Tests of the HTML report in a browser: ``python -m tests.report.browser`` installs it."""

from __future__ import annotations
