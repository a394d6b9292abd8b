"""How an article's changes are applied at a Subscriber: the procedures that agents call, and their text.

`texts` makes SQL from an article, `bodies` the statements inside, `install` creates and drops, `custom` examines
the user's own procedures, `script` shows the text of procedures before they exist, `net` folds commands into
their net effect. The package knows neither the Publisher nor the distribution database, and calls none of the
procedures itself.

An agent calls these, per article and operation (`apply_function`, `set_function`), under the replica role:

``msrepl.apply_<article>_<ins|upd|del>(command text)``
    Applies one command as it is stored, of any format. Fails with SQLSTATE P0002 and number 20598 in DETAIL (a
    JSON object) if the row does not exist at the Subscriber.
``msrepl.set_<article>_<ins|upd|del>(commands text[]) returns bigint``
    Applies a run of commands as one statement; returns -1 if nothing was done and the commands must be applied
    one by one.
``msrepl.apply_net(codes integer[], commands text[]) returns bigint``
    Applies the result of `net_effect`: deletes, updates, inserts, each postponed while another is in its way.
"""

from __future__ import annotations

from twopc.subscriber.propagation.calls import SubscriberSide
from twopc.subscriber.propagation.custom import CustomRoutine
from twopc.subscriber.propagation.install import create, drop, drop_all, install, regenerate
from twopc.subscriber.propagation.net import Layout, OrderedCommand, net_effect
from twopc.subscriber.propagation.script import SCRIPTS, script_procedure
from twopc.subscriber.propagation.texts import (
    ROW_NOT_FOUND,
    PropagationTexts,
    apply_function,
    article_texts,
    drop_texts,
    set_function,
)

__all__ = [
    "ROW_NOT_FOUND",
    "SCRIPTS",
    "CustomRoutine",
    "Layout",
    "OrderedCommand",
    "PropagationTexts",
    "SubscriberSide",
    "apply_function",
    "article_texts",
    "create",
    "drop",
    "drop_all",
    "drop_texts",
    "install",
    "net_effect",
    "regenerate",
    "script_procedure",
    "set_function",
]
