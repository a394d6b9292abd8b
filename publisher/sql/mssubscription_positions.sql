-- msrepl.mssubscription_positions: the position of each subscription, which needs everything after it.
-- called by: twopc.publisher.distribution (clean_up)
-- tables:    msrepl.mssubscriptions, msrepl.msdistribution_agents
-- holes:     none
--
-- A subscription without an initial copy needs everything that is stored, unless its starting position is
-- known. Inactive subscriptions need nothing.
create or replace view msrepl.mssubscription_positions as
select s.publisher_database_id, s.article_id, s.subscriber,
       case when s.status = 1 and s.subscription_seqno is null then '0/0'::pg_lsn
            else greatest(a.delivered, s.subscription_seqno) end as position
from msrepl.mssubscriptions as s
join msrepl.msdistribution_agents as a using (publisher_database_id, subscriber)
where s.status > 0;
comment on view msrepl.mssubscription_positions is 'What each subscription waits for: everything after its position';
