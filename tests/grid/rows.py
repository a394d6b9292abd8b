"""The rows of the matrix: faults that strike at a point of a coordinator's process, and the others."""

from __future__ import annotations

from tests.grid.faults import FAULTS
from tests.grid.hands import HANDS
from tests.grid.pauses import PAUSES
from tests.grid.servers import SERVERS
from tests.grid.silence import SILENCE

EVERY = (*FAULTS, *HANDS, *PAUSES, *SERVERS, *SILENCE)

#: Rows without faults at points, and the tests of each.
ELSEWHERE = {
    "M9 lost answer of PREPARE": "tests/crash/test_lost_answers.py",
    "M10 lost answer of COMMIT PREPARED": "tests/crash/test_lost_answers.py",
    "M11 late PREPARE": "tests/crash/test_late_prepare.py",
    "M14, M15 whatever keeps a branch from being prepared": "tests/crash/test_votes.py, docs/votes.md",
    "M19 orphans": "tests/crash/test_orphans.py",
    "M32 stale rows, values lost with their answer": "tests/crash/test_conflicts.py",
    "M33 what a session leaves open at the Publisher": "tests/crash/test_link_left.py",
}
