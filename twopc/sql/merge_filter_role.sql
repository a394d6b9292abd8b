-- The role that evaluates the filters of one article: it reads the tables that they use, and may do nothing else.
-- called by: twopc.publisher.merge.filters
-- tables:    msrepl.msmerge_partition_groups, msrepl.msmerge_current_partition_mappings
-- holes:     role, role_text, comment
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = {role_text}) then
        create role {role} nologin;
        comment on role {role} is {comment};
    end if;
end
$msrepl$;
grant usage on schema msrepl to {role};
grant select on msrepl.msmerge_partition_groups, msrepl.msmerge_current_partition_mappings to {role};
