-- msrepl.send_held: sends the net effect of held rows, children before their parents.
-- called by: release_held; prepare_branch, if anything is left
-- tables:    msrepl.held_row, msrepl.msreplication_objects, msrepl.branch_marker
-- holes:     owner, own_branch, publisher_branch, sites, sites_text
--
-- Within one statement, a referential action or a user's trigger may change a row again or delete it, in an
-- order that AFTER triggers do not show. The links from version to version are therefore followed, and each
-- row is sent once, from its state before the statement to its state after it.
--
-- Deletes and updates are sent for children first, while the Publisher's foreign keys are deferred: when a
-- parent changes there, nothing that the Subscriber holds refers to it any more, so the Publisher's own
-- referential action finds no row. Rows that it would still find are unknown to the Subscriber, and the
-- procedure refuses the change. Tables that refer to themselves or to each other first update rows to which
-- nothing refers, then delete, then update the rest; those that refer to each other in the reverse order in
-- which the statements began.
create or replace function msrepl.send_held() returns void
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_nestloop = off
as $msrepl$
declare
    marker tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    transaction text;
    sites constant text[] := nullif(current_setting('msrepl.participants', true), '');
    held constant tid[] :=
        string_to_array(coalesce(current_setting('msrepl.held_rows', true), ''), ' ')::tid[];
    first text := 'null,null,';
    step record;
    message text;
    sent integer := 0;
    queued text;
    taking text[] := array[]::text[];
    keys text[] := array[]::text[];
    key text;
    stored jsonb;
begin
    if cardinality(held) = 0 then
        return;
    end if;
    perform set_config('msrepl.held_rows', '', true);
    if marker is null then
        transaction := msrepl.name_transaction(
            (select min(h.relid)::regclass::text from msrepl.held_row as h where h.ctid = any (held)));
        first := quote_literal(transaction || coalesce(':' || sites[1], {publisher_branch}))
            || ',' || coalesce(quote_literal(sites), {sites_text}) || ',';
    end if;
    for step in
        with recursive sets as (
            delete from msrepl.held_row as h where h.ctid = any (held) and h.xid = pg_current_xact_id()
            returning h.*
        ), gone as materialized (
            select s.relid, s.place, r.*
            from sets as s, unnest(s.old_links, s.new_links, s.old_keys, s.old_rows, s.new_rows, s.moved)
                as r(old_link, new_link, old_key, old_row, new_row, moved)
        ), walk as (
            select g.relid, g.place, g.old_key, g.old_row, g.new_link, g.new_row, g.moved
            from gone as g
            where not exists (select from gone as p where p.new_link = g.old_link)
          union all
            select w.relid, greatest(w.place, g.place), w.old_key, w.old_row, g.new_link, g.new_row,
                   coalesce(w.moved, false) or coalesce(g.moved, false)
            from walk as w
            join gone as g on g.old_link = w.new_link
        ), net as (
            select w.relid, w.place, w.old_key, w.old_row, w.new_row, w.moved,
                   case when w.old_row is null then 'ins' when w.new_link is null then 'del' else 'upd' end as operation
            from walk as w
            where (w.old_row is not null or w.new_link is not null)
              and not exists (select from gone as g where g.old_link = w.new_link)
        ), changed as materialized (
            select o.* from msrepl.msreplication_objects as o where o.objid in (select n.relid from net as n)
        ), above(child, parent) as (
            select c.objid, p.objid from changed as c join changed as p on p.objid = any (c.parents)
          union
            select a.child, p.objid
            from above as a join changed as c on c.objid = a.parent join changed as p on p.objid = any (c.parents)
        ), placed as materialized (
            select c.*,
                   (select count(*) from above as a where a.child = c.objid and a.parent <> c.objid) as rank,
                   exists (select from above as a where a.child = c.objid and a.parent = c.objid) as cyclic,
                   exists (select from above as a join above as b on b.child = a.parent and b.parent = a.child
                           where a.child = c.objid and a.parent <> c.objid) as entangled
            from changed as c
        ), calls as (
            select n.relid, n.operation, case when s.entangled and n.operation <> 'ins' then n.place end as wave,
                   s.cyclic and n.operation = 'upd' and coalesce(n.moved, false) as last,
                   array_agg(n.old_key)::text as old_keys, array_agg(n.old_row)::text as old_rows,
                   array_agg(n.new_row)::text as new_rows
            from net as n
            join placed as s on s.objid = n.relid
            group by 1, 2, 3, 4
        )
        select s.sync_calls ->> c.operation as call, c.operation, s.write_back, s.dest_schema, s.article,
               c.old_keys, c.old_rows, c.new_rows
        from calls as c
        join placed as s on s.objid = c.relid
        order by c.operation = 'ins',
                 case when c.operation = 'ins' then s.rank else -s.rank end,
                 c.last,
                 case when s.cyclic then c.operation = 'del' else c.operation = 'upd' end,
                 c.wave desc,
                 c.relid
    loop
        message := coalesce(message || ';', '') || step.call || first || case step.operation
            when 'ins' then quote_literal(step.new_rows)
            when 'upd' then quote_literal(step.old_keys) || ',' || quote_literal(step.new_rows)
            else quote_literal(step.old_rows) end || ')';
        first := 'null,null,';
        sent := sent + 1;
        key := format('%s %s.%s', step.operation, step.dest_schema, step.article);
        if step.write_back is not null and step.operation <> 'del' and key <> all (keys) then
            taking := taking || step.write_back;
            keys := keys || key;
        end if;
    end loop;
    if sent = 0 then
        return;
    end if;
    if cardinality(taking) > 0 then
        message := 'set local msrepl.stored = '''';' || message;
    end if;
    if sent > 1 then
        message := 'call msrepl.defer_keys(true);' || message || ';call msrepl.defer_keys(false)';
    end if;
    if marker is null then
        insert into msrepl.branch_marker as m (gid, xid, participants, pending)
        values (transaction || {own_branch}, pg_current_xact_id(), coalesce(sites, {sites}), message)
        on conflict (xid) do nothing
        returning set_config('msrepl.marker', m.ctid::text, true)::tid, m.pending into marker, queued;
    else
        update msrepl.branch_marker as m set pending = coalesce(m.pending || ';', '') || message
        where m.ctid = marker and m.xid = pg_current_xact_id() and not m.prepared
        returning set_config('msrepl.marker', m.ctid::text, true)::tid, m.pending into marker, queued;
    end if;
    if marker is null then
        perform msrepl.raise_uncoordinated(step.article);
    end if;
    if cardinality(taking) = 0 and current_setting('msrepl.shipping', true) = 'lazy' and length(queued) <= 16384 then
        return;
    end if;
    perform msrepl.flush();
    if cardinality(taking) > 0 then
        stored := nullif(msrepl.fetch_stored(), '')::jsonb;
        for place in 1 .. cardinality(taking) loop
            if jsonb_array_length(stored -> keys[place]) > 0 then
                execute format('select %s($1)', taking[place]) using stored -> keys[place];
            end if;
        end loop;
    end if;
end
$msrepl$;
alter function msrepl.send_held() owner to {owner};
revoke all on function msrepl.send_held() from public;
comment on function msrepl.send_held() is 'Sends the net effect of what is held';
