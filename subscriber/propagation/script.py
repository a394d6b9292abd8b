"""The text of procedures before they exist: `sp_scriptinsproc` and the related procedures (seed 000).

Pure. The text is that of the procedure which `install.create` would create for a table with the article's columns.
"""

from __future__ import annotations

from twopc.articles import Article
from twopc.propagation import Format, Method, Propagation
from twopc.subscriber.propagation.calls import SubscriberSide
from twopc.subscriber.propagation.texts import PropagationTexts

#: The original's scripting procedures: operation and call format of the procedure that each one scripts.
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
    """Return the text of the default procedure that `script` shows, with the row types that it needs.

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
    return "\n".join(_without_header(text) for text in [*types, texts.procedure(operation)])


def _without_header(text: str) -> str:
    """Return a template's text without the comment at its head, which is for maintainers of the template."""
    lines = text.splitlines(keepends=True)
    while lines and (lines[0].startswith("--") or not lines[0].strip()):
        del lines[0]
    return "".join(lines)
