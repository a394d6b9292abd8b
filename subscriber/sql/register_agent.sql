-- The row of a subscription: its Publisher, and the name under which this Subscriber takes part in transactions.
-- called by: twopc.subscriber.subscription, twopc.subscriber.read_only, the script of a subscription
-- tables:    msrepl.mssubscription_agents
-- holes:     publisher, subscriber, publisher_db, server, update_mode
do $msrepl$
begin
    if exists (select from msrepl.mssubscription_agents) then
        raise exception 'database "%" subscribes to "%" already (21058)', current_database(),
            (select a.publisher from msrepl.mssubscription_agents as a)
            using errcode = 'object_not_in_prerequisite_state', hint = 'Unsubscribe first: twopc unsubscribe.';
    end if;
end
$msrepl$;
insert into msrepl.mssubscription_agents (publisher, subscriber, publisher_db, link, update_mode)
values ({publisher}, {subscriber}, {publisher_db}, {server}, {update_mode});
