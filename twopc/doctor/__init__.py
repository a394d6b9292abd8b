"""Examination of whether a server can serve as a node, and the reasons if it cannot.

The doctor only reads: it changes nothing, and reports each problem as a finding with a remedy. It must not depend
on how findings are shown, nor on how objects are installed.
"""

from __future__ import annotations

from twopc.doctor.examination import core_finding, examine, missing_grants, registered_slots
from twopc.doctor.finding import ROLES, Finding, Level, RoleOfNode, format_findings

__all__ = [
    "ROLES",
    "Finding",
    "Level",
    "RoleOfNode",
    "core_finding",
    "examine",
    "format_findings",
    "missing_grants",
    "registered_slots",
]
