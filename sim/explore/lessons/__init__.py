"""Lessons: one Markdown source each, from which the pages in ``docs/lessons`` and the explorer's are made.

A source has the name ``NN_topic.md``. It begins with front matter (``title``, ``minutes``, ``teaches``,
``needs``) and goes on in Markdown. A mark before a block says what the block is:

* ``<!-- file: NAME -->``: a file that the reader saves;
* ``<!-- change: NAME -->``, before a ``diff``: lines of that file that begin with ``-`` become those behind
  them that begin with ``+``;
* ``<!-- question -->``, before a ``yaml`` block: a question that is answered before a run shows the outcome.

A ``console`` block has commands alone, each behind ``$``: what they print is written into the page when it
is made. ``<details><summary>Answer</summary>`` and ``</details>`` hold the answer of an exercise.

A question has ``ask``, the name of an ``order`` of the file that was saved or changed last (or of ``file``) or a
list of steps that the file does not have as an order, perhaps ``without``: the protections that are switched
off, and either

* ``choices``: texts, each with what a scenario may expect of an order. The right one is the one whose
  expectation holds in the run; no source says which. Of other checks nothing is asked. Where one choice says
  whom a step is ``blocked_by``, another that does not means that it does not wait. ``{fails: converged}`` holds if that invariant fails,
  ``{fails: nothing}`` if none does, ``{sometimes: …}`` if the expectation holds in at least one of an order's
  generated courses, not in all;
* or ``value``, which is read from the run: ``{step: b_read, column: balance}`` of the rows that a step gave,
  ``{table: account, at: sub1, row: {id: 1}, column: balance}`` of the rows at the end.

`twopc.sim.explore.lessons.source` reads sources, `answers` plays what is asked, `page` makes pages, and `wire`
the explorer's form.
"""

from __future__ import annotations
