-- msrepl.explain_failure: explains the failure of a message where the Publisher's own error does not.
-- called by: ship_again, prepare_branch, prepare_again, fetch_generated
-- tables:    at the Publisher: pg_locks, pg_prepared_xacts
-- holes:     owner
--
-- Raises a clearer error, or returns, and the caller raises its own.
create or replace function msrepl.explain_failure(
    state text, message text, detail text, context text, command text, hint text default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    -- returns to where the message began, so that the link can be queried; code of the Publisher's tables may
    -- have changed the search path at the previous commit
    retreat constant text := substring(command from '^rollback(?: to s[0-9]+)?');
    relation constant text := substring(context from E'in relation "([^\n]+)"');
    held json;
    shown text;
begin
    if msrepl.link_is_lost(state) then
        raise exception 'the link to the Publisher broke within the transaction: %', split_part(message, chr(10), 1)
            using errcode = 'connection_failure',
                  detail = json_build_object('kind', 'publisher_unreachable', 'number', 21054)::text,
                  hint = 'Nothing is committed at either site: roll back and try again.';
    elsif state = '23505' and message ~ '"branch_marker_pkey"' then
        raise exception 'this transaction was given up by recovery, or its id was used before'
            using errcode = 'transaction_rollback',
                  detail = json_build_object('kind', 'fenced', 'number', 0)::text,
                  hint = 'Roll back and begin another global transaction.';
    elsif state = '23505' and not starts_with(coalesce(detail, ''), chr(123)) then
        perform msrepl.raise_conflict('update_exists', '23505', 20515, null, null, null, null, null, message);
    elsif state = '22P02' and message ~ E'enum msrepl\\.\\S*mssync_shape_|^malformed record literal' then
        -- the Publisher's procedures expect other rows than those that the triggers here send
        perform msrepl.raise_stale(o.dest_schema, o.article, 'Publisher')
        from msrepl.msreplication_objects as o, jsonb_each_text(o.sync_calls) as c
        where strpos(command, c.value) > 0;
    elsif state in ('25P01', '3B001') and starts_with(command, 'rollback to') then
        raise exception 'the transaction at the Publisher that belongs to this one has ended'
            using errcode = 'invalid_transaction_state',
                  detail = message,
                  hint = 'Its branch was prepared already, or reset_link was called: roll back and try again.';
    elsif state = '55P03' and relation is not null then
        begin
            -- a prepared branch has no pid; its transaction is shown by another lock
            held := msrepl.query_link(retreat || format($query$;
                set search_path = pg_catalog, pg_temp;
                select json_build_object(
                    'waited', current_setting('lock_timeout'),
                    'article', coalesce(min(h.article) filter (where h.holder is not null), min(h.article), %1$L),
                    'holders', coalesce(json_agg(distinct h.holder) filter (where h.holder is not null), '[]'))
                from (
                    select n.nspname || '.' || t.relname,
                           coalesce('prepared branch ' || p.gid,
                                    'session ' || l.pid || coalesce(' (' || nullif(a.application_name, '') || ')', ''))
                    from pg_class as c
                    left join pg_index as i on i.indexrelid = c.oid
                    join pg_class as t on t.oid = coalesce(i.indrelid, c.oid)
                    join pg_namespace as n on n.oid = t.relnamespace
                    left join pg_locks as l
                        on l.locktype = 'relation' and l.relation = t.oid and l.granted
                        and l.database = (select oid from pg_database where datname = current_database())
                        and l.mode <> 'AccessShareLock' and l.pid is distinct from pg_backend_pid()
                    left join pg_locks as x
                        on x.locktype = 'transactionid' and x.virtualtransaction = l.virtualtransaction
                        and x.pid is null and l.pid is null and x.granted
                    left join pg_prepared_xacts as p on p.transaction = x.transactionid
                    left join pg_stat_activity as a on a.pid = l.pid
                    where c.relname = %1$L and c.relkind in ('r', 'p', 'i', 'I')
                ) as h(article, holder)$query$, relation))::json;
        exception when others then
            return; -- the Publisher's own error is raised then
        end;
        raise exception 'a lock on % at the Publisher was not granted within %: %', held ->> 'article', held ->> 'waited',
                coalesce((select string_agg(h, ', ') || ' holds locks on it'
                          from json_array_elements_text(held -> 'holders') as h), 'its holder has ended meanwhile')
            using errcode = 'lock_not_available',
                  detail = json_build_object('kind', 'lock_timeout', 'number', 0, 'article', held ->> 'article',
                                             'holders', held -> 'holders')::text,
                  hint = 'Roll back to a savepoint or altogether, and try again. '
                      || 'A prepared branch holds its locks until its coordinator or recovery finishes it.';
    end if;
    shown := msrepl.shown_detail(state, detail);
    if shown is distinct from detail then
        raise exception using errcode = state, message = message, detail = coalesce(shown, ''), hint = coalesce(hint, '');
    end if;
end
$msrepl$;
alter function msrepl.explain_failure(text, text, text, text, text, text) owner to {owner};
revoke all on function msrepl.explain_failure(text, text, text, text, text, text) from public;
comment on function msrepl.explain_failure(text, text, text, text, text, text) is 'Says what the failure of a message to the Publisher means';
