"""Commands of stored blocks, taken apart by article.

Pure, typed for mypyc, and nothing of ours is imported: see `twopc.core`. Blocks are arrays as the server sends them
in binary, one dimension without NULLs; commands keep their order, and nobody looks into one.
"""

from __future__ import annotations

from typing import Final

#: Dimensions, NULLs, element type, length, lower bound: before the elements.
_HEADER_BYTES: Final = 20
#: A code with its length before it.
_CODE_BYTES: Final = 8

Cut = tuple[int, bytes, bytes, int, int, int]
"""Article, or 0 for all others together; codes and texts, as arrays; the lowest and the highest code; how many."""


def cut_by_article(codes: bytes, texts: bytes, apart: list[int]) -> list[Cut]:
    """The commands of each article that is kept apart, and before them those of all the others.

    Args:
        codes: article's number * 100 + type, of each command.
        apart: articles, by number.
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
            # the arrays that they come from say of what their elements are
            found_codes = codes[:12] + _length(many) + b"".join(code_pieces[slot])
            found_texts = texts[:12] + _length(many) + b"".join(text_pieces[slot])
            made.append((articles[slot], found_codes, found_texts, lows[slot], highs[slot], many))
    return made


def _int4(data: bytes, at: int) -> int:
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def _length(count: int) -> bytes:
    """Of an array whose first element has the number 1."""
    return count.to_bytes(4, "big") + b"\0\0\0\1"
