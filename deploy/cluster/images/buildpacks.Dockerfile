# In place of a public builder of Cloud Native Buildpacks: the lifecycle, and one small buildpack. Apps run in RUN_IMAGE.
ARG BASE
FROM ${BASE}
ARG RUN_IMAGE
RUN groupadd -g 1002 cnb && useradd -u 1002 -g 1002 -m cnb
COPY lifecycle launcher /cnb/lifecycle/
RUN ln -s lifecycle /cnb/lifecycle/creator
COPY buildpack.toml /cnb/buildpacks/berth_greeting/1.0.0/
COPY detect.sh /cnb/buildpacks/berth_greeting/1.0.0/bin/detect
COPY build.sh /cnb/buildpacks/berth_greeting/1.0.0/bin/build
COPY order.toml /cnb/
LABEL io.buildpacks.builder.metadata="{\"lifecycle\": {\"apis\": {\"platform\": {\"supported\": [\"0.12\", \"0.13\", \"0.14\"]}}}, \"stack\": {\"runImage\": {\"image\": \"${RUN_IMAGE}\"}}}" \
      io.buildpacks.buildpack.order="[{\"group\": [{\"id\": \"berth/greeting\", \"version\": \"1.0.0\"}]}]"
ENV CNB_USER_ID=1002 CNB_GROUP_ID=1002
USER 1002:1002
