-- msrepl.merge_ranges_held: the identity ranges from which this node draws, and the highest value that it has seen.
-- called by: merge agents, at a Subscriber of a Publisher that was restored from a backup
-- tables:    msrepl.sysmergearticles, msrepl.msmerge_identity_range; see msmerge_idh_<artid>
-- holes:     owner
create or replace function msrepl.merge_ranges_held()
returns table (artid uuid, begins int8[], ends int8[], highest int8)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    perform msrepl.merge_neighbour();
    for artid, begins, ends in
        select a.artid, array_agg(r.range_begin order by r.id) filter (where r.place_end is not null),
               array_agg(r.range_end order by r.id) filter (where r.place_end is not null)
        from msrepl.sysmergearticles as a
        left join msrepl.msmerge_identity_range as r on r.artid = a.artid
        where a.created_table and a.identity_column is not null
        group by a.artid order by a.artid
    loop
        execute format('select msrepl.%I()', 'msmerge_idh_' || replace(artid::text, '-', '')) into highest;
        return next;
    end loop;
end
$msrepl$;
alter function msrepl.merge_ranges_held() owner to {owner};
revoke all on function msrepl.merge_ranges_held() from public;
comment on function msrepl.merge_ranges_held() is 'The identity ranges that this node draws from';
