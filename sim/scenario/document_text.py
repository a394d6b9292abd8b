"""Text of a scenario's values as one file, including the values from other files.

The function is pure. Comments are lost, and aliases are written out.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from twopc.sim.scenario.text import Document, Map, Number, Sequence

_TAG = "tag:yaml.org,2002:"
#: Keys at the beginning of a file.
_FIRST = ("twopc", "name", "about", "tags")
#: Keys that name other files.
_ELSEWHERE = ("extends", "include")
_WIDTH = 100


def document_text(document: Document) -> str:
    """Return the text of a file with the document's values that does not depend on other files.

    Args:
        document: document of a scenario without errors.
    """
    from ruamel.yaml import YAML  # few scenarios are written
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        """Writer of values as read by `twopc.sim.scenario.text`."""

        def ignore_aliases(self, data: Any) -> bool:
            """Return True: every value is written out."""
            return True

        def map_node(self, data: Map) -> Any:
            """Return the node of a mapping, in braces if it was written so."""
            return self.represent_mapping(f"{_TAG}map", data, flow_style=data.flow)

        def list_node(self, data: Sequence) -> Any:
            """Return the node of a list, in brackets if its items are simple."""
            is_flow = not any(isinstance(each, (dict, list)) for each in data)
            return self.represent_sequence(f"{_TAG}seq", data, flow_style=is_flow)

        def number_node(self, data: Number) -> Any:
            """Return the node of a number as it was written."""
            tag = yaml.resolver.resolve(ScalarNode, str(data), (True, False))
            return self.represent_scalar(tag, str(data))

        def none_node(self, _: None) -> Any:
            """Return the node of a null, written as a word."""
            return self.represent_scalar(f"{_TAG}null", "null")

        def text_node(self, data: str) -> Any:
            """Return the node of a text: several lines as a block, unprintable characters as escapes."""
            is_plain = all(each.isprintable() or each == "\n" for each in data)
            style = '"' if not is_plain else "|" if "\n" in data else None
            return self.represent_scalar(f"{_TAG}str", data, style=style)

    Representer.add_representer(Map, Representer.map_node)
    Representer.add_representer(Sequence, Representer.list_node)
    Representer.add_representer(Number, Representer.number_node)
    Representer.add_representer(type(None), Representer.none_node)
    Representer.add_representer(str, Representer.text_node)
    yaml = YAML(typ="rt", pure=True)
    yaml.Representer = Representer
    yaml.width = _WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    root = document.root
    assert root is not None, "a scenario without mistakes"
    whole = Map(root.mark)
    for key in dict.fromkeys((*_FIRST, *root)):
        if key in root and key not in _ELSEWHERE:
            whole.take(key, root[key], root)
    out = StringIO()
    yaml.dump(whole, out)
    return out.getvalue()
