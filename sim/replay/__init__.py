"""Replays: recorded transactions, carried out once more, and what differs from the recording. Knows no Spark.

`engine` is the one loop. Sources are iterators of recorded transactions (`loads`, `steps`; of archives those of
`twopc.sim.spark.replay`), `lanes` says which of them keep their order, and targets carry them out: sessions of a
stage or of the model (`loads`), a scenario's player (`steps`), a live topology (`topology`).
"""
