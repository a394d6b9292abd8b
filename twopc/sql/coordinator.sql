-- msrepl.coordinator: the topologies that log their decisions in this distribution database.
-- called by: the topology that is set up; whoever operates it
-- tables:    itself
-- holes:     none
--
-- Their names are part of gids and roles, and outlive their epochs, which are forgotten.
create table if not exists msrepl.coordinator (
    name text primary key
);
comment on table msrepl.coordinator is 'The topologies that log their decisions here';
