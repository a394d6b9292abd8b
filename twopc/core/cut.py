"""Separates the commands of stored blocks by article.

Pure, typed for mypyc, and imports nothing of ours: see `twopc.core`. Blocks are arrays in the server's binary format,
of one dimension and without NULLs; commands keep their order, and are not decoded.
"""

from __future__ import annotations

from typing import Final

#: Size of the header before the elements: dimensions, NULLs, element type, length, lower bound.
_HEADER_BYTES: Final = 20
#: Size of a code with its length before it.
_CODE_BYTES: Final = 8

Cut = tuple[int, bytes, bytes, int, int, int]
"""Article, or 0 for all others together; codes and texts as arrays; the lowest and the highest code; the count."""


def cut_by_article(codes: bytes, texts: bytes, apart: list[int]) -> list[Cut]:
    """Return the commands of each separated article, preceded by those of all other articles together.

    Args:
        codes: the article's number * 100 + type, of each command.
        texts: the text of each command.
        apart: the numbers of the articles to separate.
    """
    slots: dict[int, int] = {}
    for article in apart:
        slots[article] = len(slots) + 1
    count = len(slots) + 1
    code_pieces: list[list[bytes]] = [[] for _ in range(count)]
    text_pieces: list[list[bytes]] = [[] for _ in range(count)]
    lows = [0] * count
    highs = [0] * count
    at, end = _HEADER_BYTES, len(codes)
    text_at = _HEADER_BYTES
    last, slot = -1, 0
    while at < end:
        code = _int4(codes, at + 4)
        if code != last:
            slot = slots.get(code // 100, 0)
            last = code
            if not lows[slot] or code < lows[slot]:
                lows[slot] = code
            if code > highs[slot]:
                highs[slot] = code
        text_end = text_at + 4 + _int4(texts, text_at)
        code_pieces[slot].append(codes[at : at + _CODE_BYTES])
        text_pieces[slot].append(texts[text_at:text_end])
        at += _CODE_BYTES
        text_at = text_end
    made: list[Cut] = []
    articles = [0, *slots]
    for slot in range(count):
        many = len(code_pieces[slot])
        if many:
            # the headers of the original arrays name the type of the elements
            found_codes = codes[:12] + _length(many) + b"".join(code_pieces[slot])
            found_texts = texts[:12] + _length(many) + b"".join(text_pieces[slot])
            made.append((articles[slot], found_codes, found_texts, lows[slot], highs[slot], many))
    return made


def _int4(data: bytes, at: int) -> int:
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def _length(count: int) -> bytes:
    """Return the length and lower bound of an array whose first element has the number 1."""
    return count.to_bytes(4, "big") + b"\0\0\0\1"
