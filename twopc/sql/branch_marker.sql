-- msrepl.branch_marker: one row per branch of a global transaction that wrote in this database.
-- called by: sync procedures (Publisher), capture triggers and prepare_publisher (Subscriber),
--            fence_branch (recovery)
-- tables:    itself
-- holes:     owner
--
-- gid          of the prepared transaction; unique, so that an aborter's row fences a late PREPARE
-- xid          of the branch; unique, so that a branch whose settings were reset cannot begin again
-- participants the other sites, so that they can be asked if the decision log is lost
-- originator   at the Publisher: the subscription that sent the change (loopback detection)
-- calls        at the Subscriber: remote calls sent; rolls back with the savepoint of the caller
-- prior        at the Subscriber: which subtransaction wrote the row before; the same one as now: nothing lies
--              between to which the caller could roll back
-- pending      at the Subscriber: remote calls not sent yet (lazy shipping, referential actions); not
--              compressed, because each statement that waits writes all of it again
-- turn         at the Subscriber, any client: how often the end of its transaction was put off
-- fence        true: not a branch but the row of the one who made sure that there will be none
--
-- The owner creates it: ALTER TABLE ... OWNER would lock a table that is in use, whenever a topology is
-- opened again.
set local role {owner};
create table if not exists msrepl.branch_marker (
    gid text primary key,
    xid xid8 not null unique,
    participants text[] not null,
    originator text,
    calls integer not null default 0,
    prior xid,
    pending text storage external,
    turn smallint not null default 0,
    fence boolean not null default false,
    created_at timestamptz not null default clock_timestamp()
);
revoke all on msrepl.branch_marker from public;
comment on table msrepl.branch_marker is 'One row per branch of a global transaction that wrote in this database';
reset role;
