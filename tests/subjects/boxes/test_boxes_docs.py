"""The programs printed in the docs are complete and answer."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from box_toys import described, grey, means

from skidpad.subjects.boxes.subject import BoxSubject
from skidpad.subjects.description import Box, parse_description

PAGE = (Path(__file__).parents[3] / "docs" / "black-boxes.md").read_text(encoding="utf-8")
PROGRAM, SERVER = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if block.startswith("import json"))


@pytest.mark.parametrize("python", [sys.executable, "python2.7", "python3.6"])
def test_the_program_of_the_docs_answers(python: str, tmp_path: Path) -> None:
    if shutil.which(python) is None or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"no {python} here")
    (tmp_path / "serve.py").write_text(PROGRAM)
    with BoxSubject(described(Box(command=(python, "serve.py"), restarts=0)), tmp_path) as subject:
        np.testing.assert_allclose(subject.predict(grey(0, 30, 255)), means(grey(0, 30, 255)), atol=1e-5)


def test_the_server_of_the_docs_answers(tmp_path: Path) -> None:
    serving = SERVER.replace('HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()', "") + (
        'server = HTTPServer(("127.0.0.1", 0), Handler)\nprint(server.server_address[1], flush=True)\nserver.serve_forever()\n'
    )
    assert serving.count("serve_forever") == 1
    (tmp_path / "server.py").write_text(serving)
    server = subprocess.Popen([sys.executable, "server.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with server:
        try:
            port = int(server.stdout.readline())
            subject = BoxSubject(described(Box(url=f"http://127.0.0.1:{port}/", restarts=0)), tmp_path)
            np.testing.assert_allclose(subject.predict(grey(0, 30, 255)), means(grey(0, 30, 255)), atol=1e-5)
        finally:
            server.kill()


def test_the_description_of_the_docs_is_one() -> None:
    toml = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL).group(1)
    assert parse_description(toml).box == Box(command=("/opt/tf1/bin/python", "serve.py", "model.ckpt"))
