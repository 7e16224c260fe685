# In place of docker.io/library/postgres: its version, the same uid, and its programs on the PATH.
ARG BASE
FROM ${BASE}
RUN groupadd -g 999 postgres && useradd -u 999 -g 999 -d /var/lib/postgresql postgres \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    libgssapi-krb5-2 libicu72 libldap-2.5-0 liblz4-1 libreadline8 libssl3 libxml2 libzstd1 > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*
ADD postgresql.tar.gz /opt/
# Its modules look for libpq where the system has it.
RUN mkdir /usr/lib/postgresql && mv /opt/postgresql-* /usr/lib/postgresql/18 \
 && echo /usr/lib/postgresql/18/lib > /etc/ld.so.conf.d/postgresql.conf && ldconfig
ENV PATH=/usr/lib/postgresql/18/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["postgres"]
