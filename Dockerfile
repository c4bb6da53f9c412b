# One image for the Prefect server, its workers and every command; compose.yaml runs it, docs/prefect.md describes both.
FROM python:3.13-slim AS environment
# Installed by itself, as in the Makefile: a range would take the newest, with several GB for GPUs.
ARG TORCH="torch==2.13.0"
ARG TORCH_ARGS=""
COPY locks /locks
# hadolint ignore=SC2086,DL3013
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement /locks/run.txt \
    && pip install --no-cache-dir ${TORCH_ARGS} "${TORCH}"

FROM environment AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel .

FROM environment
COPY --from=wheel /wheel /wheel
RUN pip install --no-cache-dir --no-deps /wheel/*.whl \
    && useradd --create-home --uid 1000 querytruth \
    && install --directory --owner=querytruth /work
ENV DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false
USER 1000
# Definitions and images are mounted here; sets are published below /work/datasets.
WORKDIR /work
CMD ["querytruth", "--help"]
