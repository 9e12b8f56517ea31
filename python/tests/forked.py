"""What a forked child answers."""

import os
import select
import signal


def in_child(work, seconds=60):
    """What `work` answers in a forked child; a child that hangs is killed, however it hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, str(work()).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        is_told, _, _ = select.select([answer], [], [], seconds)
        if not is_told:
            os.kill(child, signal.SIGKILL)
        told = answer.read()
    os.waitpid(child, 0)
    return told or "it hangs"
