# In place of docker.io/library/redis.
ARG BASE
FROM ${BASE}
RUN groupadd -g 999 redis && useradd -u 999 -g 999 -d /var/lib/redis redis \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends redis-server > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*
CMD ["redis-server"]
