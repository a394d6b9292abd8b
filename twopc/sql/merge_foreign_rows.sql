-- fragment: protects rows here outside a Subscriber's partition from rows that it has made under the same rowguid.
-- called by: rendered into msmerge_take_<artid> of a filtered article, once its rows are locked
-- tables:    the article's part of msrepl.msmerge_metadata; msrepl.msmerge_current_partition_mappings,
--            msrepl.msmerge_past_partition_mappings
-- holes:     metadata, tablenick, table_name
--
-- Unless such a row was changed recently, nothing else shows that the Subscriber's row is not derived from it. A row
-- that the Subscriber has inserted fails as a duplicate key; one that it has deleted again was its own.
    declare
        strange constant uuid[] := array(
            select p.guid from unnest(present) as p(guid)
            where peer.partition_id is not null and not peer.is_publisher
              and not exists (select from {metadata} as m where m.rowguid = p.guid)
              and not exists (select from msrepl.msmerge_current_partition_mappings as c
                              where c.tablenick = {tablenick} and c.rowguid = p.guid and c.partition_id = peer.partition_id)
              and not exists (select from msrepl.msmerge_past_partition_mappings as c
                              where c.tablenick = {tablenick} and c.rowguid = p.guid and c.partition_id = peer.partition_id
                                and c.reason <> 4));
        inserted constant uuid := (select i.guid from unnest($1, $2) as i(guid, gone)
                                   where i.guid = any (strange) and not i.gone limit 1);
    begin
        if inserted is not null then
            raise unique_violation using
                message = format('a row of %s with the rowguid %s is at the Publisher, outside the partition of %s',
                                 {table_name}, inserted, peer.subscriber_server),
                hint = 'Insert it with another value.';
        end if;
        if strange <> '{{}}' then
            choices := array(select case when i.guid = any (strange) then 'held' else i.choice end
                             from unnest($1, $7) with ordinality as i(guid, choice, place) order by i.place);
        end if;
    end;
