"""Faults that really happen: processes are killed, servers restarted, connections cut.

At which point of the protocol, on which occasion and until when a scenario file says (`twopc.sim.scenario.faults`);
what should come of it others judge.
"""
