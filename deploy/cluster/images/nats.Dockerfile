# In place of docker.io/library/nats.
ARG BASE
FROM ${BASE}
COPY nats-server /usr/local/bin/nats-server
ENTRYPOINT ["nats-server"]
