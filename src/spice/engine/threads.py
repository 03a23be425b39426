"""How many threads torch uses: a number that every thread has for itself."""

import torch


def keep_to(threads: int) -> None:
    """Let torch use so many threads where this is called, in this thread.

    The first question settles a thread's number, and would undo what was set before it. A thread that is new takes the
    number that was set last, wherever that was: whoever starts workers sets their own again afterwards.
    """
    torch.get_num_threads()
    torch.set_num_threads(threads)
