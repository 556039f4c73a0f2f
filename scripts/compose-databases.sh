#!/bin/bash
# Run once by the postgres image: two databases, each owned by a role that may not enter the other.
set -euo pipefail

database() {
    psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
        --set database="$1" --set owner="$2" --set password="$3" <<'SQL'
CREATE ROLE :"owner" LOGIN PASSWORD :'password';
CREATE DATABASE :"database" OWNER :"owner";
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
SQL
}

database airflow airflow "$AIRFLOW_DB_PASSWORD"
database warehouse tidemark "$WAREHOUSE_PASSWORD"
