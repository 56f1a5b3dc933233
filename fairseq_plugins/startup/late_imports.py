"""Large packages that are imported when one of their functions is called."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


class LateModule(ModuleType):
    """Takes the place of a module that is needed only for its functions."""

    def __init__(self, name: str):
        super().__init__(name)
        self.__spec__, self.__path__ = ModuleSpec(name, None, is_package=True), []

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*args, **kwargs):
            return getattr(import_module(self.__name__), name)(*args, **kwargs)

        return function


@contextmanager
def late(*names: str) -> Iterator[None]:
    """In this context, an import from these modules gives functions that import the module when they are called.
    Afterwards the modules are imported as usual."""
    stand_ins = {name: LateModule(name) for name in names if name not in sys.modules}
    for name, module in stand_ins.items():
        package, _, own = name.rpartition(".")
        if package in stand_ins:
            setattr(stand_ins[package], own, module)
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in stand_ins.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
