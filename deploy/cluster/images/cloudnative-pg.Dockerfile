# In place of ghcr.io/cloudnative-pg/cloudnative-pg, which also starts each server: it copies itself into its pod.
ARG BASE
FROM ${BASE}
COPY cloudnative-pg* /operator/manager
RUN mv /operator/manager "/operator/manager_$(dpkg --print-architecture)" \
 && ln -s "operator/manager_$(dpkg --print-architecture)" /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
