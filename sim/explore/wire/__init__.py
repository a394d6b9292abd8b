"""Protocol between the explorer's page and its server: JSON, by path and method.

Every request has the link's token in the header `TOKEN_HEADER`. Every answer other than ``2xx`` has a `Refusal` as its
body; 400: the request has another shape.

=====  =================  =======================  ===========================================================
GET    /api/files         ``?checked=1``           `FileListing`; without ``checked`` from a quick scan of the files,
                                                   with an `error` only for files that cannot be read
GET    /api/file          ``?path=``               `FileContent`; 404 there is no such file
POST   /api/check         `CheckRequest`           `FileContent` of a text that is not saved
PUT    /api/file          `SaveRequest`            `SavedFile`; 409 the file has changed meanwhile,
                                                   413 the text is too long to be read again
POST   /api/play          `PlayRequest`            `PlayAnswer`; 422 the text has errors, or a switch is not possible
POST   /api/orders        `OrdersRequest`          server-sent events, each an `OrdersEvent`; the search
                                                   stops if the client disconnects
POST   /api/postgres      `PlayRequest`            `PostgresAnswer`
POST   /api/export        `ExportRequest`          `ExportedText`
GET    /api/schema                                 the JSON schema of scenario files
GET    /api/templates                              `TemplateListing`
GET    /api/lessons                                a list of `twopc.sim.explore.lessons.wire.LessonJson`
GET    /api/lessons/answer `LessonQuery`             `twopc.sim.explore.lessons.wire.AnswerJson`
=====  =================  =======================  ===========================================================

`twopc explore --export DIR` writes the answers as files: see `StaticIndex`.

This package only defines types: `files` those of files, `runs` those of plays.
"""

from __future__ import annotations

#: Header with the token of the link.
TOKEN_HEADER = "X-Twopc-Token"
