-- msrepl.merge_judgement: an incoming row, the row held here, and what was decided about them.
-- called by: msmerge_take_<artid>
-- tables:    none
-- holes:     owner
do $msrepl$
begin
    if to_regtype('msrepl.merge_judgement') is null then
        create type msrepl.merge_judgement as (
            rowguid uuid, "row" text, held_row text, held_writer int8,
            verdict text, conflict smallint, taken boolean[], gone boolean, lineage int8[], colv int8[],
            writer int8, conflict_id uuid
        );
    end if;
end
$msrepl$;
alter type msrepl.merge_judgement owner to {owner};
revoke all on type msrepl.merge_judgement from public;
comment on type msrepl.merge_judgement is 'What becomes of an incoming row';
