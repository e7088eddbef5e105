"""Starts one SparkContext per (token file, master) and prints what each said; a context that starts waits for its end.

Then the first argument, a file, must appear before this ends: the context's farewell runs on a thread of the JVM.
"""

import sys
import time
from pathlib import Path

from pyspark import SparkConf, SparkContext

for word in sys.argv[2:]:
    token_file, master = word.split(",")
    conf = SparkConf().setMaster(master).setAppName("try").set("spark.pace.token.file", token_file)
    try:
        sc = SparkContext(conf=conf)
    except Exception as refusal:  # noqa: BLE001  # what it says is the point
        print("refused:", str(refusal).replace("\n", " "), flush=True)
        continue
    while not sc._jsc.sc().isStopped():
        time.sleep(0.05)
    print("stopped", flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.05)
