"""A task by Airflow's own operator. Differences between runs come by the environment: JOB (words), DEADLINE."""

import os
import shlex

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

application, *arguments = shlex.split(os.environ["JOB"])
with DAG("nightly", schedule=None):
    SparkSubmitOperator(
        task_id="report",
        name="report",
        application=application,
        application_args=arguments,
        conf={
            "spark.pace.deadline": os.environ["DEADLINE"],
            "spark.pace.priority": "high",
            "spark.pace.law.forecast.alpha": "0.35",
        },
    )
