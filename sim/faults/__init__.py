"""Faults on real systems: processes are killed, servers restarted, connections cut.

A scenario file specifies at which protocol point, at which arrival and until when (`twopc.sim.scenario.faults`).
Judging the consequences is left to other packages.
"""
