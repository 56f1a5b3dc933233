"""A list of modules of one type."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from torch import nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class ModuleList(nn.ModuleList, Generic[ModuleT]):
    """nn.ModuleList, which tells type checkers the type of its items. To them, an item of torch's own is any Module."""

    if TYPE_CHECKING:

        def __init__(self, modules: Iterable[ModuleT] = ()): ...

        def __iter__(self) -> Iterator[ModuleT]: ...

        @overload
        def __getitem__(self, index: slice) -> "ModuleList[ModuleT]": ...

        @overload
        def __getitem__(self, index: int) -> ModuleT: ...

        def __getitem__(self, index): ...
