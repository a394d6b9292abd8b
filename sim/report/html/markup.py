"""HTML elements as text. Content that is not markup is escaped, so that no SQL becomes part of the page."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


Content = str | Markup | None
#: Elements without an end tag.
_VOID = frozenset({"input", "meta", "link", "br", "wbr"})


def tag(name: str, /, *content: Content, **attributes: str | int | bool | None) -> Markup:
    """Return an element. Attributes that are None or False are left out, True stands without a value.

    A trailing underscore is dropped from an attribute's name, others become hyphens.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        parts.append(attribute if value is True else f'{attribute}="{escape(str(value))}"')
    start = f"<{' '.join(parts)}>"
    return Markup(start if name in _VOID else f"{start}{join(*content)}</{name}>")


def join(*content: Content) -> Markup:
    """Return the contents, concatenated."""
    return Markup(
        "".join(
            each if isinstance(each, Markup) else escape(each, quote=False)
            for each in content
            if each is not None
        )
    )


_GLASS = Markup(
    '<svg class="glass" viewBox="0 0 10 14" aria-hidden="true"><path d="M1 1h8L5 7l4 6H1l4-6z"/></svg>'
)


def signs(text: str) -> Markup:
    """Return the text with the hourglass drawn: few fonts have the character."""
    first, *others = text.split("⧗")
    return join(first, *(part for each in others for part in (_GLASS, each)))
