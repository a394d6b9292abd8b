"""Moments as sequence numbers."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


def seqno_at(transactions: DataFrame, at: datetime) -> int | None:
    """The sequence number that stands for a moment: everything up to it was committed by then.

    Times of commit do not rise strictly with the sequence, so it is the last transaction before the first one
    that was committed later.

    Args:
        at: with its time zone.

    Returns:
        None: nothing was committed by then.
    """
    moment = F.lit(at.isoformat()).cast("timestamp")
    first = F.min(F.when(F.col("entry_time") > moment, F.col("seqno")))
    later = transactions.agg(first.alias("later")).first()
    assert later is not None
    before = (
        transactions
        if later["later"] is None
        else transactions.where(F.col("seqno") < later["later"])
    )
    result = before.agg(F.max("seqno").alias("seqno")).first()
    assert result is not None
    return None if result["seqno"] is None else int(result["seqno"])
