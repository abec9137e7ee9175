"""Is never imported to its end."""

import time


def wait_for_ever() -> None:
    while True:
        time.sleep(0.1)


wait_for_ever()
