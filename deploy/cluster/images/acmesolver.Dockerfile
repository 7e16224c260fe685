# What cert-manager runs in an environment to answer a certificate authority.
ARG BASE
FROM ${BASE}
COPY acmesolver /usr/local/bin/acmesolver
USER 1000
ENTRYPOINT ["acmesolver"]
