"""What a step has freed is not held against the next one."""

import subprocess
import sys

_STORY = """
from querytruth.backends.environment import configure_allocator
configure_allocator()
import pyarrow as pa
print(pa.default_memory_pool().backend_name)
"""


def test_arrow_s_memory_is_the_system_s() -> None:
    done = subprocess.run([sys.executable, "-c", _STORY], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "system"
