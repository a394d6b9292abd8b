"""The scanner of plain Python: `scan.CommandScanner` with a shortcut for usual changes, which takes few calls per message.

A message is split at the headers of its values, so that each part begins with the length of one. If nothing follows a
value of this length but NULLs and the beginning of the new row, the message is parsed exactly. The positions of all
these are its shape. The shape and which values differ select a template of the command.

Everything else is left to the loops of `scan`: values of 64 KiB, unchanged values that are not sent, commands with
quotes or backslashes in their values, and damage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import itemgetter, ne, sub
from typing import Any, Final
from zlib import crc32

from twopc.core import scan
from twopc.core.scan import RowPlan

__all__ = ["CommandScanner", "RowPlan"]

#: The header of a value without the last two bytes of its length, and that of a value of less than 256 bytes.
_HEADER: Final = b"t\0\0"
_SHORT: Final = b"t\0\0\0"
_LENGTH: Final = itemgetter(1)
_VALUE: Final = itemgetter(slice(2, None))
#: The old and the new row of a message, by operation, without lengths and values.
_ROWS: Final = {
    b"I": rb"()N%(width)b([tn]{%(count)d})",
    b"U": rb"O%(width)b([tn]{%(count)d})N%(width)b([tn]{%(count)d})",
    b"D": rb"[KO]%(width)b([tn]{%(count)d})()",
}
#: Maximum number of shapes kept, and of templates.
_KEPT_MAX: Final = 1024

_Key = tuple[Any, ...]
_Pick = Callable[[Sequence[Any]], Sequence[Any]]
_Template = tuple[bytes, int, int, _Pick, int]
"""A command without values; the numbers of quotes and backslashes in it; what picks the parts with its values, the last
of which are the key; and the number of the latter.
"""


class PlainScanner(scan.CommandScanner):
    """A scanner that is faster in plain Python."""

    def __init__(self, read_to: int, next_xid: int, *, pauses: bool) -> None:
        super().__init__(read_to, next_xid, pauses=pauses)
        self._shapes: dict[_Key, _Shape] = {}
        self._templates: dict[_Key, _Template] = {}

    def _single(self, plan: RowPlan, data: bytes, kind: int) -> bool:
        return self._take(plan, data) or super()._single(plan, data, kind)

    def _update(self, plan: RowPlan, data: bytes) -> bool:
        return self._take(plan, data) or super()._update(plan, data)

    def _take(self, plan: RowPlan, data: bytes) -> bool:
        """Convert a change; return False to leave it to the loops."""
        parts: list[Any] = data.split(_HEADER)
        try:
            if data.count(_SHORT) == len(parts) - 1:
                key = (plan, parts[0], *map(sub, map(len, parts), map(_LENGTH, parts)))
            else:
                key = (plan, parts[0], *[len(each) - (each[0] << 8 | each[1]) for each in parts])
        except IndexError:  # a length is missing
            return False
        shape = self._shapes.get(key) or self._shape(key, parts)
        if shape is None:
            return False
        for at, tail in shape.tails:
            if not parts[at].endswith(tail):
                return False
            parts[at] = parts[at][: -len(tail)]
        parts.append(None)
        template = shape.only
        if template is None:
            differs = (shape, *map(ne, shape.old(parts), shape.new(parts)))
            template = self._templates.get(differs)
            if template is None:
                template = shape.template(differs[1:])
                _keep(self._templates, differs, template)
        text, quotes, backslashes, pick, keys = template
        values = (*map(_VALUE, pick(parts)),)
        text %= values
        # 34 and 92 are a quote and a backslash
        if (34 in data or 92 in data) and (text.count(34), text.count(92)) != (quotes, backslashes):
            return False
        crc = crc32(values[-1] if keys == 1 else b"\0".join(values[-keys:]))
        code = plan.beside if self.beside else plan.code
        self.add(code, plan.hashkeys[crc % len(plan.hashkeys)], text)
        return True

    def _shape(self, key: _Key, parts: list[bytes]) -> _Shape | None:
        """Return the shape of a message, which is kept; None if it has none.

        Args:
            key: plan; first part; by part, the number of its bytes, less those of its value.
        """
        plan, head, _, *beside = key
        if min(beside, default=2) < 2 or max(beside, default=2) > 2 * plan.width + 4:
            return None
        tails = [part[len(part) + 2 - n :] for part, n in zip(parts[1:], beside, strict=True)]
        width = {b"width": re.escape(plan.width.to_bytes(2)), b"count": plan.width}
        match = re.fullmatch(_ROWS[head[:1]] % width, b"t".join([head[5:], *tails]))
        if match is None or b"".join(match.groups()).count(b"t") != len(tails):
            return None
        shape = _Shape(plan, match[1], match[2], tails)
        if not shape.fits:
            return None
        _keep(self._shapes, key, shape)
        return shape


#: The name of the class that it replaces.
CommandScanner = PlainScanner


class _Shape:
    """Positions of the values in a message, as numbers of parts; NULL is after the last part.

    Args:
        old, new: the rows: ``t`` is a value, ``n`` is NULL; empty if the message has no such row.
        tails: what follows each value.
    """

    old: _Pick
    new: _Pick
    """Pick the values of an update."""

    def __init__(self, plan: RowPlan, old: bytes, new: bytes, tails: list[bytes]) -> None:
        self._plan, self._has_old, self._is_update = plan, bool(old), bool(old and new)
        self._null = null = len(tails) + 1
        parts = iter(range(1, null))
        before, after = [
            [next(parts) if n == ord("t") else null for n in row] for row in (old, new)
        ]
        self._keys = [(before or after)[place] for place in plan.keys]
        self._values = [after[place] for place in plan.values if after]
        self.tails = [(at, tail) for at, tail in enumerate(tails, 1) if tail]
        self.only = None if self._is_update else self.template([True] * len(self._values))
        """The template of another operation."""
        self.fits = null not in self._keys
        """Whether there is a key, and a whole old row for an update."""
        if self._is_update:
            self.old = _picker([before[place] for place in plan.values])
            self.new = _picker(self._values)
            self.fits = self.fits and before[plan.version] != null

    def template(self, differs: Sequence[bool]) -> _Template:
        """Return the template of commands with the new values that differ."""
        null, keys = self._null, self._keys
        sent = [at if differ else null for at, differ in zip(self._values, differs, strict=True)]
        fields = [b"" if at == null else b'"%b"' for at in sent]
        if self._has_old:
            fields += [b'"%b"'] * len(keys)
            end = b")"
        else:
            end = b"%.0b" * len(keys) + b")"  # the key is not shown, since it is among the values
        if self._is_update:
            end = self._plan.mask(sum([1 << bit for bit, differ in enumerate(differs) if differ]))
        text = b"(" + b",".join(fields) + end
        pick = _picker([at for at in sent if at != null] + keys)
        return text, text.count(b'"'), text.count(b"\\"), pick, len(keys)


def _picker(places: list[int]) -> _Pick:
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places)


def _keep(kept: dict[_Key, Any], key: _Key, made: object) -> None:
    if len(kept) >= _KEPT_MAX:
        kept.clear()
    kept[key] = made
