"""The resolver that an article names, ready to be called; users' own resolvers are imported in the agent's process."""

from __future__ import annotations

import importlib

from twopc.errors import ArticleError
from twopc.merge.resolvers import PYTHON, SQL, MergeResolver, OwnResolver, answered, parsed


def resolver_of(text: str, where: str) -> MergeResolver:
    """Return the resolver of that name.

    Args:
        text: the name, in the form that an article uses.
        where: the article, for messages.

    Raises:
        ArticleError: the resolver does not exist (20020), or its module cannot be imported.
    """
    if text.startswith(SQL):
        return OwnResolver(function=answered)
    if not text.startswith(PYTHON):
        return parsed(text, where)
    module, _, name = text.removeprefix(PYTHON).partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArticleError(f"{where}: there is no resolver {text!r} (20020): {error}") from error
    if not callable(function):
        raise ArticleError(f"{where}: resolver {text!r} cannot be called (20020)")
    return OwnResolver(function=function)
