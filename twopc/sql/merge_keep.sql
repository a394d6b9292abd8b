-- msrepl_keep: prevents a published database from being dropped.
-- called by: twopc.publisher.merge.publication
-- tables:    none
-- holes:     name
--
-- PostgreSQL does not drop a database that has a subscription, not even with FORCE (55006). This subscription is
-- disabled, connects to nothing and has no slot.
create subscription {name} connection '' publication msrepl with (connect = false, slot_name = none);
comment on subscription {name} is 'Keeps this database, which is published for merging, from being dropped: twopc merge unpublish takes it away';
