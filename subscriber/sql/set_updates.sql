-- msrepl.set_<article>_upd: makes a run of calls for one article's UPDATE in one statement.
-- called by: the distribution agent
-- tables:    the subscribed table; msrepl.msreplication_procedures; catalogs
-- holes:     function, article_id, table_text, call_type, key, same, key_stays, statement, computed, runs_as,
--            path_stays, owner, agent, comment
--
-- Like msrepl.set_<article>_<operation> for INSERT and DELETE. Of several calls that set the same columns of one
-- row, only the last is made: intermediate values are visible only to a trigger or a rule that fires for agents;
-- if there is one, an omitted call is a reason for -1. So is a call that changes the key: others for the same
-- key may be meant for another row. The remaining calls for one row, which set different columns, are made in
-- successive turns. Rows are updated in the order of the key, so that each page of the table is visited once.
create function {function}(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows {call_type}[];
    turn bigint := 0;
    turns bigint;
    wanted bigint;
    changed bigint;
    done bigint := 0;
begin
{runs_as}    if not msrepl.is_default_procedure({article_id}, 'upd') then
        return -1;
    end if;
    begin
        rows := commands::{call_type}[];
        loop
            turn := turn + 1;
            with last as (
                select distinct on ({same}) c.* from unnest(rows) with ordinality as c
                order by {same}, c.ordinality desc
            ), due as materialized (
                select c.*, row_number() over (partition by {key} order by c.ordinality) as place from last as c
            ), updated as (
            {statement}
            returning 1)
            select max(c.place), count(*) filter (where c.place = turn), (select count(*) from updated)
            into turns, wanted, changed from due as c;
            if changed <> wanted then
                raise exception using errcode = 'no_data_found';
            end if;
            done := done + changed;
            exit when turn >= turns;
        end loop;
        if done < cardinality(rows) and (
            msrepl.fires_for_agents({table_text}) or exists (select from unnest(rows) as c where not ({key_stays}))
        ) then
            raise exception using errcode = 'no_data_found';
        end if;{computed}
    exception
        when no_data_found or unique_violation or exclusion_violation or data_exception then
            return -1;
    end;
{path_stays}    return cardinality(rows);
end
$msrepl$;
alter function {function}(text[]) owner to {owner};
revoke all on function {function}(text[]) from public;
grant execute on function {function}(text[]) to {agent};
comment on function {function}(text[]) is {comment};
