# In place of docker.io/library/registry.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends docker-registry > /dev/null \
 && ln -s docker-registry /usr/bin/registry \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*
ENTRYPOINT ["registry"]
CMD ["serve", "/etc/docker/registry/config.yml"]
