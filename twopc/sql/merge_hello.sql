-- msrepl.merge_hello: returns the progress of this node and the session's neighbour with each other.
-- called by: merge agents, at the beginning of a session
-- tables:    msrepl.sysmergeschemachange, msrepl.sysmergesubscriptions, msrepl.msmerge_replica, catalogs; see msrepl.merge_is_expired, msrepl.merge_faults
-- holes:     owner
--
-- Raises an error if msrepl.merge_faults finds anything.
create or replace function msrepl.merge_hello(
    out replica int8, out former int8[], out neighbour int8, out neighbour_former int8[], out sentgen int8, out recgen int8, out recguid uuid, out coming_gen int8,
    out coming_guid uuid, out known_from int8, out cleaned int8, out is_expired boolean, out servers jsonb, out behind jsonb,
    out schemaversion integer, out schemaguid uuid
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    me msrepl.msmerge_replica;
    fault record;
begin
    select r.* into me from msrepl.msmerge_replica as r;
    if me.system_identifier <> (select s.system_identifier from pg_control_system() as s)
        or me.database <> (select d.oid from pg_database as d where d.datname = current_database())
    then
        raise exception 'database % is a copy of one that merges: its transaction ids are others', current_database()
            using errcode = 'object_not_in_prerequisite_state', hint = 'Uninstall merge replication here, and subscribe anew.';
    end if;
    select f.* into fault from msrepl.merge_faults() as f limit 1;
    if found then
        raise exception 'table % %', fault.name, fault.what
            using errcode = 'object_not_in_prerequisite_state', hint = fault.remedy;
    end if;
    replica := me.replica;
    former := me.former;
    neighbour := peer.replnickname;
    neighbour_former := peer.former;
    sentgen := peer.sentgen;
    recgen := peer.recgen;
    recguid := peer.recguid;
    coming_gen := peer.coming_gen;
    coming_guid := peer.coming_guid;
    known_from := peer.known_from;
    cleaned := me.cleaned;
    servers := msrepl.merge_servers(null);
    behind := msrepl.merge_servers(peer.subscriber_server);
    select c.schemaversion, c.schemaguid into schemaversion, schemaguid
    from msrepl.sysmergeschemachange as c order by c.schemaversion desc limit 1;
    is_expired := coalesce(msrepl.merge_is_expired(peer), false);
end
$msrepl$;
alter function msrepl.merge_hello() owner to {owner};
revoke all on function msrepl.merge_hello() from public;
comment on function msrepl.merge_hello() is 'How far this node and a neighbour are with each other';
