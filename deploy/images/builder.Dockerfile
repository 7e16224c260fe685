# What builds apps on a cluster: the platform's image with buildah and git. It runs as uid 1000 and makes user
# namespaces of its own. The platform's image must be made on a Debian base.
ARG PLATFORM
FROM ${PLATFORM}
USER 0:0
ARG VERSION=0.0.0
ARG REVISION=unknown
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    buildah ca-certificates git libcap2-bin netbase uidmap > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/*
# A setuid newuidmap lacks the rights it needs in a pod; file capabilities give it those and no more.
RUN chmod u-s,g-s /usr/bin/newuidmap /usr/bin/newgidmap \
 && setcap cap_setuid+ep /usr/bin/newuidmap && setcap cap_setgid+ep /usr/bin/newgidmap
COPY deploy/images/containers /etc/containers
RUN former=$(getent passwd 1000 | cut -d: -f1) \
 && if [ -n "$former" ]; then userdel -r "$former" 2> /dev/null; fi \
 && useradd -u 1000 -U -m -d /home/builder -s /bin/sh builder \
 && echo builder:100000:65536 | tee /etc/subuid > /etc/subgid \
 && node /app/deploy/images/sbom.ts berth-builder "$VERSION" /usr/share/berth/sbom.cdx.json
LABEL org.opencontainers.image.title="Berth builder" \
      org.opencontainers.image.description="Builds apps from source, as a Job in a cluster" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
ENV HOME=/home/builder BUILDAH_ISOLATION=chroot
USER 1000:1000
