"""Lessons: one Markdown source each, from which the pages in ``docs/lessons`` and in the explorer are made.

A source has the name ``NN_topic.md``. It begins with front matter (``title``, ``minutes``, ``teaches``,
``needs``), which Markdown follows. A mark before a block determines its kind:

* ``<!-- file: NAME -->``: a file that the reader saves;
* ``<!-- change: NAME -->``, before a ``diff``: lines of that file with ``-`` are replaced by the lines with
  ``+`` that follow them;
* ``<!-- question -->``, before a ``yaml`` block: a question that is answered before a run shows the outcome.

A ``console`` block has only commands, each after ``$``: their output is added when the page is made.
``<details><summary>Answer</summary>`` and ``</details>`` enclose the answer to an exercise.

A question has ``ask``; the name of an ``order`` of the file that was saved or changed last (or of ``file``), or a
list of steps that the file does not have as an order; optionally ``without``, the protections that are switched
off; and either

* ``choices``: texts, each with an expectation of the order as in a scenario. The right choice is the one whose
  expectation the run meets; the source does not name it. Other checks are ignored. If one choice names for
  whom a step is ``blocked_by``, a choice without it means that the step does not wait.
  ``{fails: converged}`` is right if that invariant fails,
  ``{fails: nothing}`` if none does, ``{sometimes: …}`` if the expectation holds in at least one of an order's
  generated courses, but not in all;
* or ``value``, which is read from the run: ``{step: b_read, column: balance}`` from the rows that a step returned,
  ``{table: account, at: sub1, row: {id: 1}, column: balance}`` from the final rows.

`twopc.sim.explore.lessons.source` reads sources, `answers` plays questions, `page` makes pages, and `wire`
the explorer's form.
"""

from __future__ import annotations
