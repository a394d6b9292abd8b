"""Has the model record what it reads and writes: its classes note attributes, its containers elements.

`install` must be called before any module of the model is imported. Nothing is asked of the code: the modules are
changed as they are loaded.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

import simpy

from tests.explore.footprints.accesses import (
    READ,
    Named,
    Recorder,
    attribute,
    note,
    note_assignment,
)
from tests.explore.footprints.containers import BASES, TRACKED, tracked

#: Modules whose state is recorded, by the beginnings of their names.
_RECORDED = (
    "twopc.sim.model.", "twopc.drivers.", "twopc.protocol.", "twopc.publisher.log_reader.",
    "twopc.subscriber.distribution_agent.",
)  # fmt: skip
#: The search itself, and values.
_NOT_RECORDED = (
    "twopc.sim.model.explore.", "twopc.sim.model.kernel", "twopc.sim.model.choosers", "twopc.sim.model.values",
)  # fmt: skip
#: Attributes to which a container was assigned that does not note its use.
unnoted: dict[str, None] = {}


# -- attributes ------------------------------------------------------------------------------------


def _passive(kind: type) -> frozenset[str]:
    """Return the names of methods, properties and the like: what is no data of an instance."""
    found: dict[str, bool] = {}
    for one in reversed(kind.__mro__):
        for name, value in vars(one).items():
            is_slot = type(value).__name__ == "member_descriptor"
            found[name] = name.startswith("__") or (hasattr(value, "__get__") and not is_slot)
    return frozenset(name for name, is_passive in found.items() if is_passive)


def _patch(owner: type) -> None:
    """Have the instances of a class, and of classes derived from it, note the use of their attributes."""
    passive: dict[type, frozenset[str]] = {}
    inherited: Any = owner.__setattr__

    def get(self: Any, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if Recorder.now is not None and not name.startswith("__"):
            kind = type(self)
            if kind not in passive:
                passive[kind] = _passive(kind)
            if name not in passive[kind]:
                note(self, name, READ)
        return value

    def assign(self: Any, name: str, value: Any) -> None:
        where = f"{type(self).__name__}.{name}"
        if isinstance(self, simpy.Event):
            value = tracked(value, where)  # simpy has no other reference to it
        elif type(value) in TRACKED:
            unnoted.setdefault(where)
        elif isinstance(value, Named) and not value.kept_as:
            value.kept_as = where
        note_assignment(self, name, attribute(self, name))
        inherited(self, name, value)

    owner.__getattribute__ = get  # type: ignore[assignment]
    owner.__setattr__ = assign  # type: ignore[assignment]


def _has_state(owner: type) -> bool:
    """Whether instances of a class have attributes that change."""
    if issubclass(owner, Enum | tuple | BaseException | type) or getattr(
        owner, "_is_protocol", False
    ):
        return False
    params = getattr(owner, "__dataclass_params__", None)
    return params is None or not params.frozen


def _patch_classes(module: ModuleType) -> None:
    for owner in [*vars(module).values()]:
        is_own = isinstance(owner, type) and owner.__module__ == module.__name__
        if is_own and _has_state(owner) and not isinstance(owner.__getattribute__, FunctionType):
            _patch(owner)


# -- containers ------------------------------------------------------------------------------------

#: Functions that make a container.
_MAKERS = frozenset(
    ("dict", "list", "set", "deque", "defaultdict", "OrderedDict", "sorted", "count", "fromkeys")
)


class _Wrapping(ast.NodeTransformer):
    """Passes each container that a function makes through `tracked`."""

    def __init__(self, module: str) -> None:
        self._module = module.rpartition(".")[2]
        self._depth = 0

    def visit(self, node: ast.AST) -> Any:
        """Transform a node, and then what it consists of."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return self._function(node)
        if isinstance(node, ast.Lambda):
            self._depth += 1
            node.body = self.visit(node.body)
            self._depth -= 1
            return node
        if isinstance(node, ast.ClassDef):
            return self._class(node)
        if isinstance(node, ast.AnnAssign):
            node.value = None if node.value is None else self.visit(node.value)
            return node
        self.generic_visit(node)
        makes = isinstance(
            node, ast.Dict | ast.List | ast.Set | ast.ListComp | ast.SetComp | ast.DictComp
        )
        if isinstance(node, ast.Call):
            makes = _name(node.func) in _MAKERS
            self._factories(node)
        if not makes or not self._depth or isinstance(getattr(node, "ctx", None), ast.Store):
            return node
        assert isinstance(node, ast.expr)
        return self._wrapped(node, node)

    def _wrapped(self, value: ast.expr, at: ast.expr) -> ast.expr:
        place = ast.Constant(f"{self._module}:{at.lineno}")
        call = ast.Call(ast.Name("__tracked__", ast.Load()), [value, place], [])
        return ast.fix_missing_locations(ast.copy_location(call, at))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._depth += 1
        node.body = [self.visit(one) for one in node.body]
        self._depth -= 1
        return node

    def _class(self, node: ast.ClassDef) -> ast.AST:
        for at, base in enumerate(node.bases):
            if (name := _name(base)) in BASES:
                made = ast.Name(f"__tracked_{name}__", ast.Load())
                node.bases[at] = ast.copy_location(made, base)
        node.body = [self.visit(one) for one in node.body]
        return node

    def _factories(self, node: ast.Call) -> None:
        """Replace the default factories of dataclasses."""
        for one in node.keywords:
            if one.arg == "default_factory" and _name(one.value) in BASES:
                made = ast.Call(one.value, [], [])
                nothing = ast.arguments([], [], None, [], [], None, [])
                maker = ast.Lambda(nothing, self._wrapped(made, one.value))
                one.value = ast.fix_missing_locations(ast.copy_location(maker, one.value))


def _name(node: ast.expr) -> str:
    """Return the last name of a function or class: of ``a.b[c]``, ``b``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


# -- modules ---------------------------------------------------------------------------------------


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module whose state is recorded."""

    def get_code(self, fullname: str) -> Any:
        """Return the changed module; never from a cache."""
        path = self.get_filename(fullname)
        tree = _Wrapping(fullname).visit(ast.parse(self.get_data(path), path))
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and then change its classes."""
        names = vars(module)
        names["__tracked__"] = tracked
        names.update({f"__tracked_{name}__": base for name, base in BASES.items()})
        super().exec_module(module)
        _patch_classes(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules whose state is recorded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib`."""
        if not fullname.startswith(_RECORDED) or fullname.startswith(_NOT_RECORDED):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Have the modules of the model that are imported from now on record what they use."""
    if any(name.startswith("twopc.sim.model") for name in sys.modules):
        raise RuntimeError("the model has been imported already")
    _patch(simpy.Event)
    sys.meta_path.insert(0, _Finder())
