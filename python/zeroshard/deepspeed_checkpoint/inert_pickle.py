"""Reads a pickle as data.

Python's own unpickler imports what a file names and calls it. Here a name stays a name: nothing is imported, no attribute is
looked up, and what a file wants to call is looked for in a table of functions of ours, which only build data. What is not in
the table becomes Unknown. Python's pickletools take the text apart; its memory is bounded by the file.
"""
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Name(NamedTuple):
    """What a file calls a class or function."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Record:
    """An object of a class that only holds data, as the names and values of its attributes."""

    kind: str
    fields: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Unknown:
    """An object that we would need somebody's code to make."""

    kind: str


class BadPickle(ValueError):
    """The text is no pickle that torch.save writes."""


Builder = Callable[..., Any]
_MARK = object()
_SINGLE = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
             "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS = {"PUT", "BINPUT", "LONG_BINPUT"}
_GETS = {"GET", "BINGET", "LONG_BINGET"}
_KEYS = (str, int, float, bytes, type(None))  # bool is an int


class _Machine:
    """The stack on which a pickle builds its value."""

    def __init__(self, builders: Mapping[Name, Builder], stored: Builder) -> None:
        self._builders = builders
        self._stored = stored
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, text: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(text):
            if opcode.name == "STOP":
                return self._pop()
            self._step(opcode.name, argument)
        raise BadPickle("it has no end")

    def _step(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self._push(argument)
        elif name in _SINGLE:
            self._push(_SINGLE[name])
        elif name in _TUPLES:
            self._push(tuple(self._pop_many(_TUPLES[name])))
        elif name in _PUTS:
            self._memo[argument] = self._top()
        elif name in _GETS:
            self._push(self._remembered(argument))
        else:
            step = getattr(self, f"_do_{name.lower()}", None)
            if step is None:
                raise BadPickle(f"it has an operation that torch.save does not write: {name}")
            step(argument)

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise BadPickle("its stack runs empty")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise BadPickle("its stack runs empty")
        return self._stack[-1]

    def _pop_many(self, count: int) -> list[Any]:
        return [self._pop() for _ in range(count)][::-1]

    def _pop_to_mark(self) -> list[Any]:
        items = []
        while self._stack:
            item = self._stack.pop()
            if item is _MARK:
                return items[::-1]
            items.append(item)
        raise BadPickle("a mark is missing")

    def _remembered(self, number: int) -> Any:
        if number not in self._memo:
            raise BadPickle("it takes up what it has not put down")
        return self._memo[number]

    def _do_proto(self, _: Any) -> None:
        pass

    _do_frame = _do_proto

    def _do_mark(self, _: Any) -> None:
        self._push(_MARK)

    def _do_pop(self, _: Any) -> None:
        if not self._stack:
            raise BadPickle("its stack runs empty")
        self._stack.pop()

    def _do_pop_mark(self, _: Any) -> None:
        self._pop_to_mark()

    def _do_dup(self, _: Any) -> None:
        self._push(self._top())

    def _do_memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._top()

    def _do_tuple(self, _: Any) -> None:
        self._push(tuple(self._pop_to_mark()))

    def _do_empty_list(self, _: Any) -> None:
        self._push([])

    def _do_list(self, _: Any) -> None:
        self._push(self._pop_to_mark())

    def _do_append(self, _: Any) -> None:
        item = self._pop()
        self._expect(list).append(item)

    def _do_appends(self, _: Any) -> None:
        items = self._pop_to_mark()
        self._expect(list).extend(items)

    def _do_empty_dict(self, _: Any) -> None:
        self._push({})

    def _do_dict(self, _: Any) -> None:
        made: dict[Any, Any] = {}
        self._fill(made, self._pop_to_mark())
        self._push(made)

    def _do_setitem(self, _: Any) -> None:
        pair = self._pop_many(2)
        self._fill(self._expect(dict), pair)

    def _do_setitems(self, _: Any) -> None:
        items = self._pop_to_mark()
        self._fill(self._expect(dict), items)

    def _do_empty_set(self, _: Any) -> None:
        self._push(set())

    def _do_additems(self, _: Any) -> None:
        items = self._pop_to_mark()
        self._expect(set).update(key(item) for item in items)

    def _do_frozenset(self, _: Any) -> None:
        self._push(frozenset(key(item) for item in self._pop_to_mark()))

    def _do_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._push(Name(module, name))

    def _do_stack_global(self, _: Any) -> None:
        module, name = self._pop_many(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise BadPickle("a class without a name")
        self._push(Name(module, name))

    def _do_reduce(self, _: Any) -> None:
        called, arguments = self._pop_many(2)
        self._push(self._made(called, arguments))

    _do_newobj = _do_reduce  # a class instead of a function: to us one is as good as the other

    def _do_newobj_ex(self, _: Any) -> None:
        called, arguments, _keywords = self._pop_many(3)
        self._push(self._made(called, arguments))

    def _do_build(self, _: Any) -> None:
        """An object's attributes. Those of containers, such as a state_dict's _metadata, are of no use here."""
        state = self._pop()
        made = self._top()
        if isinstance(made, Record) and isinstance(state, dict):
            made.fields.update(state)
        elif isinstance(made, Settled):
            made.settle(state)

    def _do_binpersid(self, _: Any) -> None:
        self._push(self._stored(self._pop()))

    def _expect(self, kind: type) -> Any:
        """The container below what was just taken. Items of an unknown one go where it is."""
        made = self._top()
        if isinstance(made, Unknown):
            return kind()
        if not isinstance(made, kind):
            raise BadPickle("it fills what cannot be filled")
        return made

    def _fill(self, made: dict[Any, Any], items: list[Any]) -> None:
        if len(items) % 2:
            raise BadPickle("a key without a value")
        for at in range(0, len(items), 2):
            made[key(items[at])] = items[at + 1]

    def _made(self, called: Any, arguments: Any) -> Any:
        if not isinstance(arguments, tuple):
            raise BadPickle("a call without arguments")
        if not isinstance(called, Name):
            raise BadPickle("it calls what is no function")
        builder = self._builders.get(called)
        return Unknown(str(called)) if builder is None else builder(*arguments)


class Settled:
    """A value of a builder's that wants the state which follows it."""

    def settle(self, state: Any) -> None:
        raise NotImplementedError


def key(value: Any) -> Any:
    """Only flat ones: to hash what is nested a million deep ends the process."""
    flat = value if isinstance(value, tuple) and not isinstance(value, Name) else (value,)
    if all(isinstance(item, _KEYS) or item.__class__ in (Name, Unknown, Record) for item in flat):
        return value
    raise BadPickle("a key that is no text and no number")


def load(text: bytes, builders: Mapping[Name, Builder], stored: Builder) -> Any:
    """The value of a pickle. `stored` makes a tensor's storage from what torch.save says of it."""
    try:
        return _Machine(builders, stored).run(text)
    except BadPickle:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError, MemoryError, RecursionError) as error:
        raise BadPickle(f"{type(error).__name__}: {str(error)[:100]}") from None
