"""The package as a stranger first meets it."""

import subprocess
import sys


def test_importing_the_package_does_not_load_torch() -> None:
    code = "import sys, spice, spice.cli; sys.exit(any(name in sys.modules for name in ('torch', 'sklearn', 'onnxruntime')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
