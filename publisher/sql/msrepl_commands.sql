-- msrepl.msrepl_commands: the commands of each transaction, one per article and row.
-- called by: users; tests
-- tables:    msrepl.msrepl_blocks, msrepl.mspublisher_databases
-- holes:     none
--
-- command_id  counts from 1 within its transaction
-- article_id  0: the command is for every Subscriber
-- type        twopc.propagation.CommandType
-- hashkey     assigns the command to a stream: 0 to the first one only, otherwise by the (old) key
-- command     a call's parameters as text of a row, a statement, or JSON
create or replace view msrepl.msrepl_commands as
select b.publisher_database_id, c.seqno as xact_seqno, c.command_id, c.code / 100 as article_id,
    c.code % 100 as type, nullif(c.originator, 0) as originator_id, c.hashkey, c.command
from msrepl.msrepl_blocks b
-- without the parts of a transaction that is still being stored
join msrepl.mspublisher_databases d on d.id = b.publisher_database_id and b.last_seqno is distinct from d.open_seqno
cross join lateral unnest(
    b.command_seqnos, b.command_ids, b.codes, b.command_originators, b.hashkeys, b.texts)
    as c (seqno, command_id, code, originator, hashkey, command);
comment on view msrepl.msrepl_commands is 'What each transaction does, a command per article and row';
