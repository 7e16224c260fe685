#!/bin/sh
# berth NAME [ARGUMENT...]: become the gateway, a service or a tool of the platform.
set -eu
name=${1:-}
case "$name" in
  gateway) file=/app/gateway/main.ts ;;
  replay) file=/app/services/kit/replay.ts ;;
  rotate) file=/app/services/variables/rotate.ts ;;
  refunds) file=/app/services/billing/refunds-main.ts ;;
  stripe-seed) file=/app/services/billing/seed-main.ts ;;
  stripe-check) file=/app/services/billing/check-main.ts ;;
  agreement) file=/app/services/billing/agreement-main.ts ;;
  pulls) file=/app/services/deployer/images/pulls/main.ts ;;
  backup) file=/app/deploy/backup/backup.ts ;;
  restore) file=/app/deploy/backup/restore.ts ;;
  *) file=/app/services/$name/main.ts ;;
esac
if [ -z "$name" ] || [ ! -f "$file" ]; then
  echo "usage: berth gateway|replay|rotate|refunds|stripe-seed|stripe-check|agreement|pulls|backup|restore|$(cd /app/services && ls -d */main.ts | sed 's#/main.ts##' | paste -sd '|')" >&2
  exit 64
fi
shift
# As on one machine (deploy/local/programs/program-process.ts).
export MALLOC_ARENA_MAX="${MALLOC_ARENA_MAX:-1}"
exec node --disable-warning=ExperimentalWarning --expose-gc --max-semi-space-size=16 --v8-pool-size=1 "$file" "$@"
