"""pytest on a changed copy of the code, many times: each run is a fork of one process that has imported the heavy
libraries, so that it costs what the tests themselves cost."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_SERVE = """
import json, os, sys
import duckdb, hypothesis, msgspec, numpy, pandas, PIL.Image, pyarrow.parquet, pytest, scipy.stats, yaml
phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # the smallest example of a fault is for people
hypothesis.settings.register_profile("forked", phases=phases, database=None, deadline=None)
hypothesis.settings.load_profile("forked")
for line in sys.stdin:
    folder, output, words = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    else:
        for stream in (1, 2):
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        os.chdir(folder)
        sys.path.insert(0, folder)
        os._exit(pytest.main(words))
"""


class ForkedPytest:
    """Runs of pytest, one after the other."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path, output: Path) -> None:
        self.folder = folder
        self._process, self._output = process, output

    def run(self, tests: Sequence[str], *words: str) -> tuple[int, str]:
        """The exit status on these files below `tests/` of the copy, and what was printed."""
        assert self._process.stdin and self._process.stdout
        options = ["-n", "0", "-x", "-q", "-p", "no:cacheprovider", *words]
        asked = [str(self.folder), str(self._output), [*(f"{self.folder}/tests/{name}" for name in tests), *options]]
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()), self._output.read_text("utf-8", "replace")


@contextmanager
def fork_pytest(folder: Path, output: Path) -> Iterator[ForkedPytest]:
    """Tests in a copy of the checkout; what they print goes to the file `output`, outside the copy."""
    command = [sys.executable, "-B", "-c", _SERVE]
    surroundings = {**os.environ, "PYTHONPATH": str(folder)}
    with subprocess.Popen(
        command, cwd=folder, env=surroundings, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield ForkedPytest(process, folder, output)
        assert process.stdin
        process.stdin.close()
