"""Attributes that are computed once, and do not hold up those of other objects."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from rerank_plugin.base.lazily import cached_property


class Waiting:
    def __init__(self, *events: Event):
        self.events, self.times, self.began = events, 0, Event()

    @cached_property
    def value(self) -> int:
        """How often it was computed."""
        self.times += 1
        self.began.set()
        for event in self.events:
            assert event.wait(10)
        return self.times


def test_an_attribute_is_computed_once_and_can_be_replaced():
    object = Waiting()
    assert (object.value, object.value, object.times) == (1, 1, 1)
    object.value = 7
    assert object.value == 7 and Waiting.value.__doc__ == "How often it was computed."


def test_an_object_does_not_wait_for_another_of_its_class():
    event = Event()
    slow = Waiting(event)
    with ThreadPoolExecutor(1) as executor:
        found = executor.submit(lambda: slow.value)
        assert slow.began.wait(10)
        assert Waiting().value == 1  # with a lock of the class this would wait
        event.set()
        assert found.result() == 1
