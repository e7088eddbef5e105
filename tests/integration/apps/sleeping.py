"""Tasks that sleep until they are killed: a job asks for cores by its running tasks, and these take none from other tests."""

import time

from pyspark import SparkContext

sc = SparkContext.getOrCreate()
sc.parallelize(range(8), 8).map(lambda _: time.sleep(3600)).count()
