-- msrepl.commands_between: the commands after one position up to another, from as few blocks as possible.
-- called by: twopc.publisher.distribution; agents; twopc.sim.topology
-- tables:    msrepl.msrepl_blocks
-- holes:     none
create or replace function msrepl.commands_between(publisher integer, after pg_lsn, upto pg_lsn)
returns table (
    xact_seqno pg_lsn, command_id integer, article_id integer, type integer, originator_id integer,
    hashkey integer, command text
)
language sql stable
begin atomic
    select c.seqno, c.command_id, c.code / 100, c.code % 100, nullif(c.originator, 0), c.hashkey, c.command
    from msrepl.msrepl_blocks b
    cross join lateral unnest(
        b.command_seqnos, b.command_ids, b.codes, b.command_originators, b.hashkeys, b.texts)
        as c (seqno, command_id, code, originator, hashkey, command)
    where b.publisher_database_id = publisher and b.last_seqno > after and b.first_seqno <= upto
        -- the same bound for the indexed column: the planner does not know that both columns increase together
        and b.last_seqno <= coalesce(
            (select min(n.last_seqno) from msrepl.msrepl_blocks n
             where n.publisher_database_id = publisher and n.last_seqno >= upto),
            upto)
        and c.seqno > after and c.seqno <= upto;
end;
revoke all on function msrepl.commands_between(integer, pg_lsn, pg_lsn) from public;
comment on function msrepl.commands_between(integer, pg_lsn, pg_lsn)
    is 'The commands after a position up to another';
