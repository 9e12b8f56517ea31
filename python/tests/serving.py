"""A server of ours for tests."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

POLICIES = """
[policy.chat.limits]
rpm = { calls = 100, per = '1h' }
tokens = { rate = 1000, per = '1h' }

[policy.spend.limits]
usd = { budget = '10.00', per = '1h', unit = '0.01' }

[policy.jobs.limits]
slots = { concurrency = 1 }
"""


class Server:
    """`tidegate serve` with these policies, in memory unless told otherwise."""

    def __init__(self, folder, *more, http="127.0.0.1:0", config=POLICIES):
        program = os.environ.get("TIDEGATE", pathlib.Path(__file__).parents[2] / "target/debug/tidegate")
        if not shutil.which(str(program)):
            if "TIDEGATE" in os.environ:
                pytest.fail(f"{program}, which TIDEGATE names, is not there")
            pytest.skip("the program `tidegate` is not built")
        (folder / "tidegate.toml").write_text(config)
        self.process = subprocess.Popen(
            [program, "serve", "--config", "tidegate.toml", "--http", http, "--grpc", "off", "--resp", "off"]
            + list(more or ("--store", "memory:")),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        said = (line.split() for line in self.process.stdout)
        self.url = next(words[1] for words in said if words[:1] == ["HTTP"])

    def _tasks(self):
        return pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()

    @staticmethod
    def _is_stopped(task):
        try:
            return (task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
        except OSError:  # The thread has ended.
            return True

    @contextlib.contextmanager
    def paused(self):
        """It stands still, and goes on afterwards."""
        self.process.send_signal(signal.SIGSTOP)
        while not all(self._is_stopped(task) for task in self._tasks()):
            pass
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()
