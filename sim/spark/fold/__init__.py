"""Commands → the rows of the tables at a point in the sequence.

A row is what its last insert, or the base, and the updates after it made of it: per column the value that was
set last. That is one aggregation by key which combines before anything is shuffled, so that a row which
changes all the time costs no more than others. Rows whose key changes are followed from key to key, in
order (`fold.ordered`); only they are.
"""

from __future__ import annotations

from twopc.sim.spark.fold.shape_plan import newest, unfoldable
from twopc.sim.spark.fold.state import folded, seqno_at, state_of

__all__ = ["folded", "newest", "seqno_at", "state_of", "unfoldable"]
