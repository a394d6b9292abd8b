"""The fold of commands into the rows of the tables at a point in the sequence.

A row results from its last insert, or the base, and the updates after it: each column has the value that was set
last. This is one aggregation by key that combines before any shuffle, so that a row which changes all the
time costs no more than others. Only rows whose key changes are followed from key to key, in order
(`fold.key_order`).
"""

from __future__ import annotations

from twopc.sim.spark.fold.shape_plan import newest, unfoldable
from twopc.sim.spark.fold.state import folded, seqno_at, state_of

__all__ = ["folded", "newest", "seqno_at", "state_of", "unfoldable"]
