# In place of docker.io/library/registry.
ARG BASE
FROM ${BASE}
COPY registry /usr/local/bin/registry
ENTRYPOINT ["registry"]
CMD ["serve", "/etc/distribution/config.yml"]
