"""The package as a stranger first meets it."""

import subprocess
import sys


def test_importing_the_package_does_not_load_torch() -> None:
    heavy = ("torch", "sklearn", "onnxruntime", "pyarrow")
    code = f"import sys, spice, spice.cli; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
