"""MLlib's `CrossValidator` with two fits at a time: hundreds of short jobs from a thread pool; then a forest; both are
checked.

The label follows from three of twelve columns that are hashes of the row's number, so a good model reaches known bounds. The
fits are seeded and their order is not: the thread that computes what another one waits for differs from run to run.
"""

from __future__ import annotations

import argparse
import json
import sys

COLUMNS, FOLDS = 12, 3
LEAST_LINEAR, LEAST_FOREST = 0.85, 0.9
"""Areas under the ROC curve that the models must reach: the label is not linear in the columns."""


def main() -> int | str:
    parser = argparse.ArgumentParser(description="Cross-validation from a thread pool that checks its models.")
    parser.add_argument("--thousands", type=float, default=60.0, help="thousands of rows: the size of the job")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=12, help="of each fit")
    options = parser.parse_args()

    from pyspark.ml.classification import LogisticRegression, RandomForestClassifier
    from pyspark.ml.evaluation import BinaryClassificationEvaluator
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    spark = SparkSession.builder.appName("cross-validate").getOrCreate()
    names = [f"x{number}" for number in range(COLUMNS)]
    hashes = [((F.abs(F.hash("id", F.lit(n))) % 1000) / 1000.0).alias(name) for n, name in enumerate(names)]
    label = (F.col("x0") + F.col("x1") * F.col("x2") + 0.3 * F.col("x5") > 0.9).cast("double").alias("label")
    rows = spark.range(round(options.thousands * 1000)).select(*hashes).select("*", label)
    assembled = VectorAssembler(inputCols=names, outputCol="features").transform(rows)
    data = assembled.select("features", "label").repartition(4).cache()

    linear = LogisticRegression(maxIter=options.iterations)
    validator = CrossValidator(
        estimator=linear,
        estimatorParamMaps=ParamGridBuilder().addGrid(linear.regParam, [0.0, 0.01, 0.1]).build(),
        evaluator=BinaryClassificationEvaluator(),
        numFolds=FOLDS,
        parallelism=options.parallelism,
        seed=5,
    )
    best = float(max(validator.fit(data).avgMetrics))  # of numpy's type, which JSON does not know
    forest = RandomForestClassifier(numTrees=20, maxDepth=7, seed=5).fit(data)
    of_forest = BinaryClassificationEvaluator().evaluate(forest.transform(data))
    spark.stop()

    ok = best > LEAST_LINEAR and of_forest > LEAST_FOREST
    # the order in which shuffled rows arrive decides which of them a tree samples, so the third decimal differs
    print(json.dumps({"answer": {"linear": round(best, 2), "forest": round(of_forest, 2)}, "ok": ok}))
    return 0 if ok else "cross-validate: the answer is wrong"


if __name__ == "__main__":
    sys.exit(main())
