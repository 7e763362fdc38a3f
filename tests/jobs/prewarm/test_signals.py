"""A prewarmed process ends at signals at any moment."""

import random
import signal
import time

from tests.jobs.prewarm.conftest import Warm, only


def test_a_hundred_pairs_of_signals_end_a_prewarmed_process(prewarmed: Warm) -> None:
    process = only(prewarmed())
    chance = random.Random(1)
    for _ in range(100):
        pair = [signal.SIGINT, signal.SIGTERM]
        chance.shuffle(pair)
        for number in pair:
            if process.poll() is None:
                process.send_signal(number)
            time.sleep(chance.uniform(0, 0.0004))
    assert process.wait(60) != 0
