# In place of docker.io/library/python: python3 with venv and pip.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3 python3-venv python3-pip > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*
CMD ["python3"]
