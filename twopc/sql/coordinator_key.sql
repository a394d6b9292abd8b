-- msrepl.coordinator_key: the keys by which a participant recognises the coordinators that may begin transactions here.
-- called by: introduce_coordinator, name_transaction, prepare_publisher, forget_epoch
-- tables:    itself
-- holes:     owner
--
-- One row for each coordinator process, with a key that only the process has. twopc.proof says what it
-- proves with the key. The row is removed with the process's first epoch.
set local role {owner};
create table if not exists msrepl.coordinator_key (
    key_id text primary key,
    coordinator text not null,
    epoch bigint not null,
    key bytea not null
);
revoke all on msrepl.coordinator_key from public;
comment on table msrepl.coordinator_key is 'The keys by which coordinators prove that a transaction is theirs';
reset role;
