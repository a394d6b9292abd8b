"""The text of procedures before they exist: `sp_scriptinsproc` and its like (seed 000).

Pure. What is shown is what `install.create` would create for a table that is as the article.
"""

from __future__ import annotations

from twopc.articles import Article
from twopc.propagation import Format, Method, Propagation
from twopc.subscriber.propagation.calls import SubscriberSide
from twopc.subscriber.propagation.texts import PropagationTexts

#: The original's procedures, by what they script.
SCRIPTS: dict[str, tuple[str, Format]] = {
    "sp_scriptinsproc": ("ins", Format.CALL),
    "sp_scriptupdproc": ("upd", Format.CALL),
    "sp_scriptmappedupdproc": ("upd", Format.MCALL),
    "sp_scriptsupdproc": ("upd", Format.SCALL),
    "sp_scriptxupdproc": ("upd", Format.XCALL),
    "sp_scriptdelproc": ("del", Format.CALL),
    "sp_scriptxdelproc": ("del", Format.XCALL),
}


def script_procedure(script: str, article: Article, article_id: int, place: SubscriberSide) -> str:
    """The default procedure that `script` shows, with the row types that it needs.

    Args:
        script: one of `SCRIPTS`.
    """
    operation, form = SCRIPTS[script]
    nothing, shown = Method(format=Format.NONE), Method(format=form)
    propagation = Propagation(
        ins=shown if operation == "ins" else nothing,
        upd=shown if operation == "upd" else nothing,
        dele=shown if operation == "del" else nothing,
    )
    texts = PropagationTexts(article, article_id, propagation, place)
    types = [texts.image_type(name) for name in texts.images()]
    return "\n".join(_shown(text) for text in [*types, texts.procedure(operation)])


def _shown(text: str) -> str:
    """The text without what its file begins with, which is for those who change that."""
    lines = text.splitlines(keepends=True)
    while lines and (lines[0].startswith("--") or not lines[0].strip()):
        del lines[0]
    return "".join(lines)
