"""The examples of docs/api.md and of the README run as they are written, one after the other, on the bundled sample."""

import os
import re
import subprocess
import sys
from pathlib import Path

import rerank_plugin as rp

ROOT = Path(rp.__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_blocks(page, folder):
    """A page's examples as one script, in which errors tell the line of the page."""
    text = page.read_text(encoding="utf-8")
    script, lines = folder / f"{page.stem}.py", [""] * len(text.splitlines())
    for block in BLOCK.finditer(text):
        first = text[: block.start(1)].count("\n")
        lines[first : first + block[1].count("\n")] = block[1].splitlines()
    script.write_text("\n".join(lines), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_examples_run(tmp_path):
    run_blocks(ROOT / "docs" / "api.md", tmp_path)
    run_blocks(ROOT / "README.md", tmp_path)  # searches the index that the page has built


def test_every_public_name_stands_on_the_page():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert not [name for name in rp.__all__ if not re.search(rf"\b{name}\b", page)]
