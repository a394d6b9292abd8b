-- msrepl.trigger_mode: how triggers fired before they were declared to be NOT FOR REPLICATION or not.
-- called by: twopc.subscriber.not_for_replication
-- tables:    itself
-- holes:     owner
--
-- objid   the subscribed table; a foreign key has triggers at the table it refers to as well
-- before  pg_trigger.tgenabled, which unsubscribing restores
create table if not exists msrepl.trigger_mode (
    trigger oid primary key,
    objid oid not null,
    before "char" not null
);
comment on table msrepl.trigger_mode is 'How triggers of subscribed tables fired before, for unsubscribing';
alter table msrepl.trigger_mode owner to {owner};
revoke all on msrepl.trigger_mode from public;
