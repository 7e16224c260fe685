# An earlier version of PostgreSQL, from which tests move to the newer one.
ARG BASE
FROM ${BASE}
RUN groupadd -g 999 postgres && useradd -u 999 -g 999 -d /var/lib/postgresql postgres \
 && mkdir /etc/postgresql-common && echo create_main_cluster=false > /etc/postgresql-common/createcluster.conf \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends postgresql-15 > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*
ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["postgres"]
