"""A scenario's values as the text of one file, with everything in it that it takes from others.

Pure. Comments are lost, and so are references by which a value stands in several places.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from twopc.sim.scenario.text import Document, Map, Number, Sequence

_TAG = "tag:yaml.org,2002:"
#: What a file begins with.
_FIRST = ("twopc", "name", "about", "tags")
#: What names other files.
_ELSEWHERE = ("extends", "include")
_WIDTH = 100


def document_text(document: Document) -> str:
    """The text that has the document's values by itself.

    Args:
        document: of a scenario without mistakes.
    """
    from ruamel.yaml import YAML  # few scenarios are written
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        """Of values as `twopc.sim.scenario.text` reads them."""

        def ignore_aliases(self, data: Any) -> bool:
            """Every value is written out."""
            return True

        def map_node(self, data: Map) -> Any:
            """In braces where it was."""
            return self.represent_mapping(f"{_TAG}map", data, flow_style=data.flow)

        def list_node(self, data: Sequence) -> Any:
            """In brackets if its items are simple."""
            is_flow = not any(isinstance(each, (dict, list)) for each in data)
            return self.represent_sequence(f"{_TAG}seq", data, flow_style=is_flow)

        def number_node(self, data: Number) -> Any:
            """As it is written."""
            tag = yaml.resolver.resolve(ScalarNode, str(data), (True, False))
            return self.represent_scalar(tag, str(data))

        def none_node(self, _: None) -> Any:
            """In words."""
            return self.represent_scalar(f"{_TAG}null", "null")

        def text_node(self, data: str) -> Any:
            """Several lines as several lines; what is not seen by its escape."""
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
