# In place of an image of PgBouncer: its program on the PATH. Installing the package would start it, and need a server's tools.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    libc-ares2 libevent-2.1-7 libpam0g libssl3 libsystemd0 > /dev/null \
 && cd /tmp && apt-get download -qq pgbouncer && dpkg -x pgbouncer_*.deb /tmp/package \
 && mv /tmp/package/usr/sbin/pgbouncer /usr/local/bin/ && pgbouncer --version \
 && rm -rf /tmp/* /var/lib/apt/lists/* /var/cache/apt /var/log/*
CMD ["pgbouncer", "--version"]
