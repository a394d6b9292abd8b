-- msrepl.msrepl_transactions: the transactions to distribute, in the order of their commits.
-- called by: users; twopc.sim.topology; twopc.publisher.distribution
-- tables:    msrepl.msrepl_blocks
-- holes:     none
--
-- xact_seqno     commit LSN, by which they are ordered
-- xact_id        transaction id at the Publisher
-- entry_time     when it was committed there
-- originator_id  the Subscriber that it came from; NULL: the Publisher itself
-- marks          how many different originators have marked it (the last one counts)
-- commands       number of its commands
-- bytes          total length of their texts, which an agent must hold at once
create or replace view msrepl.msrepl_transactions as
select b.publisher_database_id, t.seqno as xact_seqno, t.xid as xact_id, t.entry_time,
    nullif(t.originator, 0) as originator_id, t.marks, t.commands, t.length as bytes
from msrepl.msrepl_blocks b
cross join lateral unnest(b.seqnos, b.xids, b.entry_times, b.originators, b.marks, b.counts, b.lengths)
    as t (seqno, xid, entry_time, originator, marks, commands, length);
comment on view msrepl.msrepl_transactions is 'Transactions to distribute, in the order of their commits';
