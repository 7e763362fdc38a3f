"""Threads that work in the background."""

import threading

from viewer.data_folder.changes import in_background


def test_a_step_is_called_again_without_a_change() -> None:
    calls, enough = list[int](), threading.Event()

    def step() -> bool:
        calls.append(len(calls))
        if len(calls) == 3:
            enough.set()
        return False

    with in_background("test", step, 0.0, max_wait=0.0):
        assert enough.wait(60)


def test_a_step_that_fails_does_not_end_the_thread() -> None:
    calls, again = list[int](), threading.Event()

    def step() -> bool:
        calls.append(len(calls))
        if len(calls) == 1:
            raise ValueError("not expected")
        again.set()
        return False

    with in_background("test", step, 0.0, max_wait=0.0):
        assert again.wait(10)
