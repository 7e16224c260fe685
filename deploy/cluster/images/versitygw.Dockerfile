# In place of docker.io/versity/versitygw.
ARG BASE
FROM ${BASE}
COPY versitygw /usr/local/bin/versitygw
ENTRYPOINT ["versitygw"]
