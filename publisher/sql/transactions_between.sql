-- msrepl.transactions_between: the transactions after one position up to another, from as few blocks as possible.
-- called by: twopc.publisher.distribution; agents; twopc.sim.topology
-- tables:    msrepl.msrepl_blocks
-- holes:     none
create or replace function msrepl.transactions_between(publisher integer, after pg_lsn, upto pg_lsn)
returns table (
    xact_seqno pg_lsn, xact_id xid8, entry_time timestamptz, originator_id integer, marks integer,
    commands integer, bytes bigint
)
language sql stable
begin atomic
    select t.seqno, t.xid, t.entry_time, nullif(t.originator, 0), t.marks, t.commands, t.length
    from msrepl.msrepl_blocks b
    cross join lateral unnest(b.seqnos, b.xids, b.entry_times, b.originators, b.marks, b.counts, b.lengths)
        as t (seqno, xid, entry_time, originator, marks, commands, length)
    where b.publisher_database_id = publisher and b.last_seqno > after and b.first_seqno <= upto
        -- the same bound for the indexed column: the planner does not know that both columns increase together
        and b.last_seqno <= coalesce(
            (select min(n.last_seqno) from msrepl.msrepl_blocks n
             where n.publisher_database_id = publisher and n.last_seqno >= upto),
            upto)
        and t.seqno > after and t.seqno <= upto;
end;
revoke all on function msrepl.transactions_between(integer, pg_lsn, pg_lsn) from public;
comment on function msrepl.transactions_between(integer, pg_lsn, pg_lsn)
    is 'The transactions after a position up to another';
