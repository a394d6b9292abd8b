"""Is this server fit to be a node, and if not, what exactly makes it so?

The doctor only looks: it changes nothing, and what is wrong is a finding with a remedy. It must not
know how findings are shown, nor how anything is installed.
"""

from __future__ import annotations

from twopc.doctor.examination import examine, missing_grants, registered_slots
from twopc.doctor.finding import ROLES, Finding, Level, RoleOfNode, format_findings
from twopc.doctor.installation import core_finding

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
