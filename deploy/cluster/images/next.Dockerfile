# The platform's next version, to which tests upgrade: every schema has a migration more.
ARG BASE
FROM ${BASE}
COPY next.sql /tmp/
USER 0
RUN for folder in /app/gateway/migrations /app/services/*/migrations; do cp /tmp/next.sql "$folder/9001-next.sql"; done
USER 1000:1000
