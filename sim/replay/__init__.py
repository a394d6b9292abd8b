"""Replays: recorded transactions that are executed again, and the differences from the recording.

`engine` has the only loop. Sources are iterators of recorded transactions (`loads`, `steps`; for archives those of
`twopc.sim.spark.replay`), `lanes` determines which transactions keep their order, and targets execute them:
sessions of a stage or of the model (`loads`), a scenario's player (`steps`), a live topology (`topology`).
Independent of Spark.
"""
