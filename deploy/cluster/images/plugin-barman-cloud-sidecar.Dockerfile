# In place of ghcr.io/cloudnative-pg/plugin-barman-cloud-sidecar, which has a newer barman: Debian's knows all options that
# the plugin passes, but compresses only by gzip and bzip2. It runs beside a server, as the uid of that server.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends barman-cli-cloud > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*
COPY plugin-barman-cloud /manager
USER 26:26
ENTRYPOINT ["/manager"]
