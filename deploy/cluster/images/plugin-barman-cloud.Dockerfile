# In place of ghcr.io/cloudnative-pg/plugin-barman-cloud.
ARG BASE
FROM ${BASE}
COPY plugin-barman-cloud /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
