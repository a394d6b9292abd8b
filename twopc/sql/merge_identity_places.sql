-- msrepl.msmerge_places_<nickname>: how many identity values a Subscriber has drawn for one article.
-- called by: msmerge_idn_<artid>, msrepl.merge_allot_ranges
-- tables:    itself
-- holes:     sequence, text, owner
--
-- It is a sequence so that sessions that draw values do not wait for one another.
create sequence {sequence} as bigint minvalue 0 start 0;
select setval({text}, 0);
alter sequence {sequence} owner to {owner};
revoke all on {sequence} from public;
