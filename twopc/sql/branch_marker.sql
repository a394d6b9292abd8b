-- msrepl.branch_marker: one row per branch of a global transaction that wrote in this database.
-- called by: sync procedures (Publisher), capture triggers, prepare_branch and prepare_publisher (Subscriber),
--            fence_branch (recovery)
-- tables:    itself
-- holes:     owner
--
-- gid          of the prepared transaction; unique, so that an aborter's row fences a late PREPARE
-- xid          of the branch; unique, so that a branch whose settings were reset cannot begin again
-- participants the other sites, which are asked if the decision log is lost
-- originator   at the Publisher: the subscription that sent the change (loopback detection)
-- calls        at the Subscriber: remote calls sent; rolls back with the savepoint of the caller
-- prior        at the Subscriber: the subtransaction that made the previous call; if it is the present one, there is
--              no savepoint between to which the caller could roll back
-- pending      at the Subscriber: remote calls not sent yet (lazy shipping, referential actions); not compressed,
--              because each waiting statement writes all of it again
-- prepared     at the Subscriber: the Publisher's branch is prepared, or there is none; nothing is captured after it
-- turn         at the Subscriber: how often it was checked whether its transaction is prepared, up to 8
-- asked_at     at the Subscriber: the client's message at which it was last checked; null after the next call
-- created_at   -infinity: the other markers of its global transaction are being removed, or are gone
-- fence        true: the row is not that of a branch, but of a process that has ensured that there will be none
--
-- The owner creates it: ALTER TABLE ... OWNER would lock a table that is in use whenever a topology is opened again.
set local role {owner};
create table if not exists msrepl.branch_marker (
    gid text primary key,
    xid xid8 not null unique,
    participants text[] not null,
    originator text,
    calls integer not null default 0,
    prior xid,
    pending text storage external,
    prepared boolean not null default false,
    turn smallint not null default 0,
    asked_at timestamptz,
    fence boolean not null default false,
    created_at timestamptz not null default clock_timestamp()
);
do $msrepl$
begin
    -- a table of an earlier version; the lock is taken only in this case
    if not exists (select from pg_catalog.pg_attribute
                   where attrelid = 'msrepl.branch_marker'::pg_catalog.regclass and attname = 'prepared') then
        alter table msrepl.branch_marker
            add column prepared boolean not null default false, add column asked_at timestamptz;
    end if;
end
$msrepl$;
revoke all on msrepl.branch_marker from public;
comment on table msrepl.branch_marker is 'One row per branch of a global transaction that wrote in this database';
reset role;
