"""Articles whose commands are brought apart from others', so that many of one kind stand together.

Commands that are all of one kind can be applied as a set. Within one commit nobody sees in which order the
rows of different tables change, except what runs at the Subscriber because of them: where there is a
trigger, a rule or a procedure of the user's that agents fire, everything stays in the Publisher's order.
The order of one article's commands is never changed, nor any where routines are published: their calls and
the rows that belong to these have numbers of their own, and change the same tables.
"""

from __future__ import annotations

from subscriber.distribution_agent.delivery import Delivery
from subscriber.distribution_agent.pipe import Statement
from subscriber.distribution_agent.planner import Window
from subscriber.distribution_agent.target import ask
from twopc.proc_execution import BESIDE

#: With fewer commands under way it is not worth the looking.
_MANY = 1000
#: So many transactions, and of each so many commands, are looked at.
_SAMPLE, _SAMPLE_COMMANDS = 200, 1000
#: An article is kept apart if a batch has so many commands of it.
_BATCH_MIN = 32

#: Nothing at the Subscriber can tell the order in which rows of different tables change, and no table has
#: two articles.
_ORDER_IS_FREE = Statement(
    """
    select not exists (select from pg_trigger where tgenabled in ('A', 'R'))
        and not exists (select from pg_rewrite where ev_enabled in ('A', 'R'))
        and not exists (
            select from msrepl.msreplication_procedures p
            where p.procedure is not null and not msrepl.is_default_procedure(p.article_id, p.operation))
        and not exists (
            select from msrepl.msreplication_procedures p
            group by p.dest_schema, p.article having count(distinct p.article_id) > 1)
    """
)


async def keep_apart(delivery: Delivery, window: Window) -> tuple[int, ...]:
    """Which articles to bring apart, going by the first transactions of a window."""
    planner = delivery.planner
    if planner.calls or any(each.article_id > BESIDE for each in planner.terms):
        # a call sees, and changes, rows of other articles; rows beside calls are those of another article's table
        return ()
    if len(planner.terms) < 2 or sum(window.commands) < _MANY:
        return ()
    answer = await ask(delivery.target.first, (_ORDER_IS_FREE, ()))
    if answer.rows(0) != [("t",)]:
        return ()
    sample = range(min(_SAMPLE, len(window)))
    uniform = await delivery.source.uniform(
        delivery.seen,
        window.seqnos[sample[-1]],
        [each.article_id for each in planner.terms],
        _SAMPLE_COMMANDS,
    )
    batches = list(planner.plan(delivery.seen, window.head(len(sample))))
    return tuple(
        article_id for article_id, count in uniform.items() if count >= _BATCH_MIN * len(batches)
    )
