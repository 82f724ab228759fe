"""Calls of Java objects by several threads."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from rerank_plugin.java.jvm import java_class


@pytest.fixture
def eager_threads():
    """Threads take turns as often as Python lets them."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_each_call_has_its_own_receiver(eager_threads):
    """Also of objects that nothing holds, and of arguments that Java makes after the method is named."""
    new_list, builder = java_class("java.util.ArrayList"), java_class("java.lang.StringBuilder")

    def read_back(number):
        texts = []
        for _ in range(400):
            each = new_list()
            each.add(builder(str(number)).toString())
            texts += each.subList(0, 1).toArray()
        return texts

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(read_back, range(4))) == [[str(number)] * 400 for number in range(4)]


def test_a_method_that_is_static_and_not():
    """The class calls the one, an object the other."""
    integer = java_class("java.lang.Integer")
    assert (integer.toString(7), integer.toString(255, 16), integer("8").toString()) == ("7", "ff", "8")
    assert integer("9").hashCode() == integer.hashCode(9) == 9
