#!/bin/sh
# Stands in for the program whose name it has. Writes its name and arguments down, and stops where a test wants it:
# at call STOP_AT, with a failure, or by killing berth-server and all that it started.
{ printf '%s' "${0##*/}" && printf ' %s' "$@" && echo; } >>"$STATE/calls"
if [ "$(wc -l <"$STATE/calls")" = "${STOP_AT:-}" ]; then
  [ "$STOP_BY" = kill ] && kill -9 0
  exit 1
fi
case "${0##*/} $*" in
  "helm history"*) cat "$STATE/release" 2>/dev/null || exit 1 ;;
  "helm pull"*)
    while [ "$1" != -d ]; do shift; done
    cp "$STATE"/chart/*.tgz "$2"
    ;;
  "helm uninstall"*) rm -f "$STATE/release" ;;
  "helm upgrade"*)
    revision=$(($(cat "$STATE/revision" 2>/dev/null || echo 0) + 1))
    echo $revision >"$STATE/revision"
    while [ "$1" != --description ]; do shift; done
    printf '[{"revision":%s,"status":"deployed","description":"%s"}]' $revision "$2" >"$STATE/release"
    ;;
  *" images ls"*) cat "$STATE/images" 2>/dev/null ;;
  *" images import"*)
    cat >"$STATE/imported.tar"
    while [ "$1" != --base-name ]; do shift; done
    case $2 in
      */berth) echo "$2@$BERTH_DIGEST" ;;
      *) echo "$2@$BUILDER_DIGEST" ;;
    esac >>"$STATE/images"
    ;;
  *" get secret berth-keys"*)
    [ -z "${KEYS_FAIL:-}" ] || exit 1
    printf 'kind: Secret\nmetadata:\n  name: berth-keys\n  uid: 1\n'
    ;;
  *" get secret berth-owner"*yaml) printf 'kind: Secret\nmetadata:\n  name: berth-owner\n  uid: 2\n' ;;
  *" get secret berth-owner"*) printf aHVudGVyMg== ;;
  *" get job berth-"*) echo "${JOB:-Complete}" ;;
  *" get nodes"*) echo "${NODE:-node1 Ready}" ;;
  *" get pods"*) echo "${PODS:-berth-gateway-1 Running true}" ;;
  *" apply -f -") cat >>"$STATE/applied" ;;
  *" --dry-run=client "*) echo "kind: Secret" ;;
  "systemctl is-active"*) [ -e "$STATE/active" ] ;;
  "systemctl restart"*) touch "$STATE/active" ;;
  getent*)
    [ -n "${DNS-198.51.100.7}" ] || exit 2
    echo "${DNS-198.51.100.7} STREAM $2"
    ;;
  hostname*) echo "10.0.0.5 198.51.100.7 " ;;
  uname*) echo x86_64 ;;
  df*) printf 'x\nx 1 1 %s %s%% x\n' "${FREE_KB:-100000000}" "${FULL:-40}" ;;
  curl*) [ -z "${CURL_FAILS:-}" ] || { echo "curl: (22) $CURL_FAILS" >&2 && exit 22; } ;;
  "apparmor_parser --version") echo "AppArmor parser version 3.0.8" ;;
esac
