-- The row of a table that only agents write: what is needed to remove the subscription.
-- called by: twopc.subscriber.read_only
-- tables:    msrepl.msreplication_objects
-- holes:     table, schema, article, created_table, added_version, added_keys
insert into msrepl.msreplication_objects
    (objid, dest_schema, article, created_table, added_version, added_keys, sync_calls)
values ({table}::regclass, {schema}, {article}, {created_table}, {added_version}, {added_keys}, '{{}}');
