-- msrepl.merge_decide: decides what happens to an incoming row (sp_MSgetmetadata).
-- called by: msmerge_take_<artid>
-- tables:    none
-- holes:     owner
--
-- It corresponds to twopc.merge.decision.decide, with which it is compared on random pairs: read that first.
-- Lineages are sorted; which one covers the other is found by walking along both, since a query for each row costs
-- five times as much.
create or replace function msrepl.merge_decide(
    held_gone boolean, held_lineage int8[], held_colv int8[], held_priority real,
    inout gone boolean, inout lineage int8[], inout colv int8[], priority real,
    replica int8, column_tracking boolean, resolves boolean, is_same boolean, choice text, is_present boolean,
    is_confirmed boolean, lowest integer,
    out verdict text, out conflict smallint, out taken boolean[]
)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_variable
declare
    incoming_gone constant boolean := gone;
    incoming_colv constant int8[] := colv;
    places constant integer := greatest(cardinality(held_colv), cardinality(colv));
    of_held boolean[];
    of_incoming boolean[];
    together int8[];
    stamp int8;
    here integer := 1;
    there integer := 1;
    is_ahead boolean := false;
    is_behind boolean := false;
    is_ambiguous boolean;
    is_apart boolean;
    is_refused boolean := false;
begin
    if held_gone is null and choice is distinct from 'held' then
        verdict := 'apply';
        return;
    end if;
    lowest := case when held_gone is null then lowest else 0 end;
    held_gone := coalesce(held_gone, not is_present);
    while here <= cardinality(held_lineage) or there <= cardinality(lineage) loop
        if there > cardinality(lineage) or held_lineage[here] >> 31 < lineage[there] >> 31 then
            is_ahead := true;
            here := here + 1;
        elsif here > cardinality(held_lineage) or held_lineage[here] >> 31 > lineage[there] >> 31 then
            is_behind := true;
            there := there + 1;
        else
            is_ahead := is_ahead or held_lineage[here] > lineage[there];
            is_behind := is_behind or held_lineage[here] < lineage[there];
            here := here + 1;
            there := there + 1;
        end if;
    end loop;
    is_ambiguous := not is_behind and not is_ahead and not is_same;
    if not is_behind and not is_ambiguous then
        verdict := 'skip';
    elsif not is_ahead and not (is_ambiguous and resolves) or is_confirmed and not resolves then
        is_refused := choice is not distinct from 'held';
        if not is_refused then
            verdict := 'apply';
            return;
        end if;
    elsif not resolves then
        verdict := 'defer';
    end if;
    if verdict is not null then
        gone := held_gone;
        lineage := held_lineage;
        colv := held_colv;
        return;
    end if;
    together := array(select max(v.v) from unnest(lineage || held_lineage) as v(v) group by v.v >> 31);
    stamp := replica << 31 | (select greatest(max(v.v & 2147483647), lowest) + 1 from unnest(together) as v(v));
    of_held := array(
        select coalesce(h.v, 0) <> 0 and not msrepl.merge_covers(lineage, array[h.v])
        from generate_series(1, places) as p(place) left join unnest(held_colv) with ordinality as h(v, place) using (place)
        order by p.place);
    of_incoming := array(
        select coalesce(i.v, 0) <> 0 and not msrepl.merge_covers(held_lineage, array[i.v])
        from generate_series(1, places) as p(place) left join unnest(colv) with ordinality as i(v, place) using (place)
        order by p.place);
    lineage := array(select v.v from unnest(together) as v(v) where v.v >> 31 <> replica union all select stamp order by 1);
    is_apart := not incoming_gone and not held_gone and column_tracking and not is_ambiguous
        and not exists (select from unnest(of_held, of_incoming) as c(of_held, of_incoming) where c.of_held and c.of_incoming);
    if is_apart and choice is distinct from 'held' then
        verdict := 'merge';
        taken := of_incoming;
        colv := array(
            select case when t.yes then coalesce(incoming_colv[t.place], 0) else coalesce(held_colv[t.place], 0) end
            from unnest(of_incoming) with ordinality as t(yes, place) order by t.place);
    elsif incoming_gone and held_gone then
        verdict := 'keep';
        colv := held_colv;
    elsif choice is null and priority > held_priority or choice = 'incoming' then
        verdict := 'replace';
        conflict := case when incoming_gone then 3 when held_gone then 4 when column_tracking then 2 else 1 end;
        colv := case when colv is not null then array(
            select case when held_gone or m.yes or is_ambiguous then stamp else coalesce(incoming_colv[m.place], 0) end
            from unnest(of_held) with ordinality as m(yes, place) order by m.place) end;
    else
        verdict := 'keep';
        if not (is_refused or is_apart) then
            conflict := case when held_gone then 3 when incoming_gone then 4 when column_tracking then 2 else 1 end;
        end if;
        gone := held_gone;
        colv := case when held_colv is not null or is_refused and incoming_colv is not null then array(
            select case when incoming_gone or t.yes or is_ambiguous then stamp else coalesce(held_colv[t.place], 0) end
            from unnest(of_incoming) with ordinality as t(yes, place) order by t.place) end;
    end if;
end
$msrepl$;
alter function msrepl.merge_decide(boolean, int8[], int8[], real, boolean, int8[], int8[], real, int8, boolean, boolean, boolean, text, boolean, boolean, integer) owner to {owner};
revoke all on function msrepl.merge_decide(boolean, int8[], int8[], real, boolean, int8[], int8[], real, int8, boolean, boolean, boolean, text, boolean, boolean, integer) from public;
comment on function msrepl.merge_decide(boolean, int8[], int8[], real, boolean, int8[], int8[], real, int8, boolean, boolean, boolean, text, boolean, boolean, integer)
    is 'What becomes of an incoming row: apply, skip, merge, keep, replace or defer';
