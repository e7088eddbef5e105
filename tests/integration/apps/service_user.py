"""A job that queries the Spark Connect server that it comes after, `shared`: where it is at first, and where it is then.

Arguments: the Python of the client, and a file that is made after the first query. The client is a process of its own,
because a session stays with the server that it began with."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

python, ready = sys.argv[1:]
client = Path(__file__).with_name("connect_client.py")
first, file = (os.environ[f"SPARKPACE_AFTER_SHARED_ADDRESS{end}"] for end in ("", "_FILE"))
FOREIGN = ("SPARK_", "PYSPARK_", "PYTHONPATH", "MASTER")
"""Beginnings of variables that spark-submit sets for its own session."""
environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


def query(address: str) -> bool:
    words = [python, str(client), f"sc://{address}", "90s"]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True, timeout=240)
    return any(json.loads(line)["ok"] for line in done.stdout.splitlines() if line.startswith(b"{"))


answers = [query(first)]
Path(ready).touch()
until = time.monotonic() + 300
while (second := Path(file).read_text().strip()) == first and time.monotonic() < until:
    time.sleep(0.2)
answers.append(query(second))
print(json.dumps({"ok": all(answers), "addresses": [first, second]}))
