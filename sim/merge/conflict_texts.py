"""Texts for types of conflicts, for screens and lists."""

from __future__ import annotations

from twopc.merge.decision import ConflictType

_WORDS = {
    ConflictType.UPDATE_UPDATE: "two updates of the row",
    ConflictType.UPDATE_UPDATE_COLUMN: "two updates of a column",
    ConflictType.DELETE_WINS: "an update and a delete, which has won",
    ConflictType.UPDATE_WINS: "a delete and an update, which has won",
    ConflictType.UPLOAD_INSERT_FAILED: "an insert that could not be written, on its way up",
    ConflictType.DOWNLOAD_INSERT_FAILED: "an insert that could not be written, on its way down",
    ConflictType.UPLOAD_DELETE_FAILED: "a delete that could not be done, on its way up",
    ConflictType.DOWNLOAD_DELETE_FAILED: "a delete that could not be done, on its way down",
    ConflictType.UPLOAD_UPDATE_FAILED: "an update that could not be written, on its way up",
    ConflictType.DOWNLOAD_UPDATE_FAILED: "an update that could not be written, on its way down",
    ConflictType.RESOLVED_BY_HAND: "decided by hand",
}


def kind_words(kind: ConflictType) -> str:
    """Return a short description of a type of conflict."""
    return _WORDS[kind]
