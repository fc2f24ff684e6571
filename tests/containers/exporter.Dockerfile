# A stand-in for the image of Postgres's exporter, of Debian's package.
ARG DEBIAN_IMAGE=debian:13-slim
FROM ${DEBIAN_IMAGE}
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends prometheus-postgres-exporter && rm -rf /var/lib/apt/lists/*
