# Airflow 3.3.2 with Java for Spark, and Tidemark: the versions and files of requirements.lock.
FROM python:3.11.13-slim-bookworm

# Debian keeps only the newest version of a package: one that is pinned would soon be gone.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends curl openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 50000 --gid 0 --create-home airflow \
    && install -d -o airflow -g 0 /opt/airflow /opt/airflow/logs /opt/tidemark

ENV AIRFLOW_HOME=/opt/airflow \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYSPARK_PYTHON=/usr/local/bin/python \
    PYSPARK_DRIVER_PYTHON=/usr/local/bin/python

WORKDIR /opt/tidemark
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY plugins ./plugins
COPY sql ./sql
COPY dags ./dags
COPY jobs ./jobs
COPY docs/schemas ./docs/schemas
RUN sed -n '/^uv==/,/[^\\]$/p' requirements.lock >/tmp/uv.txt \
    && pip install --no-cache-dir --require-hashes --requirement /tmp/uv.txt \
    && uv pip install --system --no-cache --constraint requirements.lock ".[airflow,spark,registry]" \
    && python -m tidemark.spark.archive

USER 50000
ENTRYPOINT ["airflow"]
CMD ["version"]
