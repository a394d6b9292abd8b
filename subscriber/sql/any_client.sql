-- msrepl.any_client, msrepl.any_client_sequence: whether any client may change subscribed tables, and the parts
-- from which the names of its global transactions are made.
-- called by: begin_any_client, refuse_unprepared, twopc.subscriber.any_client
-- tables:    itself
-- holes:     owner
--
-- No row: only transactions of a coordinator may change them. The sequence begins with the epoch; an epoch is
-- never used again.
set local role {owner};
create table if not exists msrepl.any_client (
    only_one boolean primary key default true check (only_one),
    coordinator text not null,
    epoch bigint not null
);
create sequence if not exists msrepl.any_client_sequence;
revoke all on msrepl.any_client from public;
revoke all on sequence msrepl.any_client_sequence from public;
comment on table msrepl.any_client is 'In whose name any client may change subscribed tables; no row: it may not';
comment on sequence msrepl.any_client_sequence is 'Numbers the global transactions of any client';
reset role;
