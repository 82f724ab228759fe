"""Methods of Java objects that threads can call at the same time; imported when the JVM has started.

Pyjnius has one object for each method of a class. It keeps the receiver of a call from where the method is named until
Java returns. In between, another thread that names this method replaces the receiver, and releases it if nothing else
holds it. Here each call takes a method object that no other call uses, and holds its receiver.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from types import MethodType
from typing import Any

from jnius import JavaClass, JavaMethod, JavaMultipleMethod, MetaJavaClass, cast, reflect

_lock = RLock()
_new_class = reflect.autoclass


def bind_receivers_per_call() -> None:
    """Let pyjnius make classes with such methods, one at a time; classes that it has made before stay as they are."""
    reflect.JavaMethod, reflect.JavaMultipleMethod, reflect.autoclass = _Method, _MultipleMethod, find_class


def find_class(name: str, include_protected: bool = True, include_private: bool = True) -> Any:
    """Pyjnius' ``autoclass``, which would let two threads make the same class at once."""
    members = include_protected, include_private
    known = MetaJavaClass.get_javaclass(name.replace(".", "/"), classparams=members)
    if known is not None:
        return known
    with _lock:
        return _new_class(name, *members)


class _Method(JavaMethod):
    """A method, which a function replaces in its class."""

    def __init__(self, definition: str, **settings: Any):
        super().__init__(definition, **settings)
        self.another = lambda: JavaMethod(definition, **settings)

    def __set_name__(self, owner: Any, name: str) -> None:
        type.__setattr__(owner, name, _calling(self.another, owner, name))


class _MultipleMethod(JavaMultipleMethod):
    """A method with several signatures. Static ones are called by the class, without a receiver."""

    def __init__(self, definitions: list[Any]):
        super().__init__(definitions)
        self.another = lambda: JavaMultipleMethod(definitions)

    def __set_name__(self, owner: Any, name: str) -> None:
        self.of_receiver = _calling(self.another, owner, name)

    def __get__(self, receiver: Any, owner: Any = None) -> Any:
        return self if receiver is None else MethodType(self.of_receiver, receiver)


def _calling(another: Callable[[], Any], owner: Any, name: str) -> Callable[..., Any]:
    """The function that calls a method of a receiver; ``another`` makes a method object."""
    unused = list[Any]()

    def call(receiver: Any, *arguments: Any, **settings: Any) -> Any:
        try:
            method = unused.pop()
        except IndexError:
            method = another()
            with _lock:
                _find_in_java(method, owner, name, receiver)
        try:
            return method.__get__(receiver)(*arguments, **settings)
        finally:
            unused.append(method)

    return call


def _find_in_java(method: Any, owner: Any, name: str, receiver: Any) -> None:
    """Let pyjnius find a method, which it does for an object of a class with this method."""
    members = {"__javaclass__": owner.__javaclass__, name: method}
    cast(MetaJavaClass.__new__(MetaJavaClass, name, (JavaClass,), members, classparams=method), receiver)
