-- msrepl.refuse_unprepared: the transaction is not committed here without its branch at the Publisher.
-- called by: the deferred trigger of msrepl.branch_marker, at PREPARE TRANSACTION or COMMIT
-- tables:    none
-- holes:     owner
--
-- Whoever names a global transaction by hand and then commits as ever would have the change at this site
-- only: what the link has open at the Publisher is rolled back. prepare_publisher leaves (0,0) behind.
--
-- SET CONSTRAINTS ALL IMMEDIATE makes this run too early to tell, and never again: such a transaction is
-- not guarded. At a transaction's end no other function or statement is around this one; a procedure's
-- COMMIT is.
create or replace function msrepl.refuse_unprepared() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    context text;
    around text;
begin
    if current_setting('msrepl.marker', true) = '(0,0)' then
        return null;
    end if;
    get diagnostics context = pg_context;
    around := substr(context, strpos(context || E'\n', E'\n') + 1);
    if around <> '' and split_part(around, E'\n', 1) !~ ' at COMMIT$'
       or current_query() ~* '\mset\s+constraints\M' then
        return null;
    end if;
    raise exception 'branch % has changed replicated tables, and is not prepared at the Publisher: committed here, it would be at this site only', new.gid
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'Let the coordinator commit it: topology.transaction(...) does. It calls msrepl.prepare_publisher before it prepares or commits here.';
end
$msrepl$;
alter function msrepl.refuse_unprepared() owner to {owner};
revoke all on function msrepl.refuse_unprepared() from public;
comment on function msrepl.refuse_unprepared() is 'Refuses to commit a branch whose Publisher was not asked';
