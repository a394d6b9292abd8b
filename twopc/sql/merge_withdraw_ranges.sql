-- msrepl.merge_withdraw_ranges: stops this node from drawing from its ranges of an article.
-- called by: merge agents, at a Subscriber whose ranges were also allotted to another
-- tables:    msrepl.msmerge_identity_range
-- holes:     owner
create or replace function msrepl.merge_withdraw_ranges(artid uuid) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    if (msrepl.merge_neighbour()).is_publisher then
        delete from msrepl.msmerge_identity_range as r where r.artid = $1 and r.place_end is not null;
    end if;
end
$msrepl$;
alter function msrepl.merge_withdraw_ranges(uuid) owner to {owner};
revoke all on function msrepl.merge_withdraw_ranges(uuid) from public;
comment on function msrepl.merge_withdraw_ranges(uuid) is 'Has this node draw from its ranges of an article no more';
