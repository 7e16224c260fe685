# In place of docker.io/valkey/valkey, whose programs have the names of Redis too: here they have their own alone.
ARG BASE
FROM ${BASE}
RUN groupadd -g 999 valkey && useradd -u 999 -g 999 -d /var/lib/valkey valkey \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends valkey-server > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*
CMD ["valkey-server"]
