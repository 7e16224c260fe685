{{/*
Every process of the platform. A new service is one more entry:
  calls      the processes that it calls
  connections  how many connections to the database one of its pods opens at most (`connections` in its config.ts)
  uses       database, nats, objectStore, registry, kubernetes, smtp, hydraAdmin, hydraPublic, clientDocuments,
             paymentProvider, loki, prometheus, imageRegistries, webhooks
  config     its environment, in addition to what all processes have (_pod.tpl)
  secrets    variable → of (which Secret, _secrets.tpl), key, optional
  files      a key of a Secret as a file
*/}}
{{- define "berth.processes" -}}
{{- $v := .Values -}}
{{- if not (and $v.oauth $v.billing $v.placement $v.apps.httpRoute $v.logs) }}{{ fail "\n\nThese are the values of an older version, without oauth, billing, placement, apps.httpRoute or logs: upgrade with your values file, or with --reset-then-reuse-values instead of --reuse-values.\n" }}{{ end -}}
{{- $hydra := eq $v.oauth.provider "hydra" -}}
- name: gateway
  calls: [identity, variables, deployer, notifications, billing]
  connections: 10
  uses: [database, nats{{ if $hydra }}, hydraPublic{{ end }}]
  config:
    API_PREFIX: /v1
    {{- if $hydra }}
    OAUTH_URL: {{ $v.oauth.hydra.publicUrl | quote }}
    {{- end }}
    {{- with $v.oauth.resource }}
    OAUTH_RESOURCE: {{ . | quote }}
    {{- end }}
    OAUTH_CLIENT_ID_METADATA: {{ include "berth.clientIdMetadata" . | quote }}
    METRICS_PORT: "9090"
    TRUST_PROXY: {{ join "," $v.trustProxy | quote }}
    CONSOLE: {{ ternary "on" "off" (dig "enabled" true ($v.console | default dict)) | quote }}
    {{- with $v.objectStore.publicUrl }}
    UPLOAD_URL: {{ . | quote }}
    {{- end }}
    RATE_LIMITS: {{ ternary "on" "off" $v.rateLimits.enabled | quote }}
    RATE_LIMIT_READS: {{ $v.rateLimits.reads | int64 | quote }}
    RATE_LIMIT_WRITES: {{ $v.rateLimits.writes | int64 | quote }}
    RATE_LIMIT_REVEALS: {{ $v.rateLimits.reveals | int64 | quote }}
    RATE_LIMIT_SET_REVEALS: {{ $v.rateLimits.setReveals | int64 | quote }}
    RATE_LIMIT_BATCHES: {{ $v.rateLimits.batches | int64 | quote }}
    RATE_LIMIT_PUBLIC: {{ $v.rateLimits.public | int64 | quote }}
    RATE_LIMIT_NEW_TOKENS: {{ $v.rateLimits.newTokens | int64 | quote }}
    RATE_LIMIT_ACCOUNT_TIMES: {{ $v.rateLimits.accountTimes | int64 | quote }}
    RATE_LIMIT_DECISIONS: {{ $v.rateLimits.decisions | int64 | quote }}
    RATE_LIMIT_TOKENS: {{ $v.rateLimits.tokens | int64 | quote }}
    RATE_LIMIT_TOKEN_FAILURES: {{ $v.rateLimits.tokenFailures | int64 | quote }}
    RATE_LIMIT_REGISTRATIONS: {{ $v.rateLimits.registrations | int64 | quote }}
    RATE_LIMIT_REGISTRATIONS_DAILY: {{ $v.rateLimits.registrationsDaily | int64 | quote }}
- name: identity
  calls: [deployer, billing]
  connections: 11
  uses:
    - database
    - nats
    {{- if $v.smtp.existingSecret }}
    - smtp
    {{- end }}
    {{- if $hydra }}
    - hydraAdmin
    {{- else if eq (include "berth.clientIdMetadata" .) "on" }}
    - clientDocuments
    {{- end }}
  config:
    API_PREFIX: /v1
    {{- include "berth.oauthConfig" . | nindent 4 }}
    {{- include "berth.planConfig" . | nindent 4 }}
    BOOTSTRAP_OWNER_EMAIL: {{ $v.owner.email | quote }}
    {{- with $v.smtp.from }}
    MAIL_FROM: {{ . | quote }}
    {{- end }}
  secrets:
    {{- if $v.smtp.existingSecret }}
    SMTP_URL: {of: smtp, key: url}
    {{- end }}
    BOOTSTRAP_OWNER_PASSWORD: {of: owner, key: password, optional: true}
    BOOTSTRAP_OWNER_TOKEN: {of: owner, key: token, optional: true}
- name: variables
  calls: [deployer]
  connections: 12
  uses: [database, nats]
  secrets:
    ENCRYPTION_KEYS: {of: keys, key: encryption-keys}
- name: deployer
  calls: [variables]
  connections: 20
  uses: [database, nats, objectStore, registry, kubernetes{{ if include "berth.archive" . }}, archive{{ end }}{{ if $v.logs.loki.url }}, loki{{ end }}{{ if ($v.apps.metrics | default dict).prometheusUrl }}, prometheus{{ end }}{{ if ne $v.apps.imageDigests "off" }}, imageRegistries{{ end }}]
  config:
    {{- include "berth.deployerConfig" . | nindent 4 }}
    {{- include "berth.planConfig" . | nindent 4 }}
  secrets:
    SECRET_KEYS: {of: keys, key: secret-keys}
    S3_ACCESS_KEY: {of: objectStore, key: access-key}
    S3_SECRET_KEY: {of: objectStore, key: secret-key}
    {{- if include "berth.archive" . }}
    ADDON_ARCHIVE_ACCESS_KEY: {of: archive, key: access-key}
    ADDON_ARCHIVE_SECRET_KEY: {of: archive, key: secret-key}
    {{- end }}
    {{- if $v.logs.loki.existingSecret }}
    LOKI_USERNAME: {of: loki, key: username, optional: true}
    LOKI_PASSWORD: {of: loki, key: password, optional: true}
    LOKI_TOKEN: {of: loki, key: token, optional: true}
    {{- end }}
    {{- if and $v.registry.bundled (not $v.registry.existingSecret) }}
    REGISTRY_PULL_KEYS: {of: registry, key: pull-keys}
    {{- end }}
  {{- if include "berth.registryLoginSecret" . }}
  files:
    - {of: registryLogin, key: .dockerconfigjson, path: /etc/berth/registry/config.json}
    {{- if include "berth.registryPullSecret" . }}
    - {of: registryPull, key: .dockerconfigjson, path: /etc/berth/registry-pull/config.json}
    {{- end }}
  {{- end }}
- name: notifications
  calls: [identity, deployer]
  connections: 12
  nodeName: true
  uses:
    - database
    - nats
    - webhooks
    {{- if $v.smtp.existingSecret }}
    - smtp
    {{- end }}
  config:
    API_PREFIX: /v1
    CONSOLE: {{ ternary "on" "off" (dig "enabled" true ($v.console | default dict)) | quote }}
    {{- $capacity := $v.capacityNotices | default dict }}
    {{- if dig "enabled" true $capacity }}
    # A file system of the node's disk.
    WATCHED_FOLDERS: '["/tmp"]'
    DISK_WARN_PERCENT: {{ dig "diskWarnPercent" 85 $capacity | quote }}
    DISK_URGENT_PERCENT: {{ dig "diskUrgentPercent" 95 $capacity | quote }}
    MEMORY_WARN_PERCENT: {{ dig "memoryWarnPercent" 10 $capacity | quote }}
    {{- end }}
    WEBHOOKS_PRIVATE: {{ ternary "on" "off" (get ($v.webhooks | default dict) "private" | default false) | quote }}
    {{- with $v.smtp.from }}
    MAIL_FROM: {{ . | quote }}
    {{- end }}
  secrets:
    SECRET_KEYS: {of: keys, key: secret-keys}
    {{- if $v.smtp.existingSecret }}
    SMTP_URL: {of: smtp, key: url}
    {{- end }}
- name: billing
  calls: [identity, deployer]
  connections: 19
  uses: [database, nats{{ if $v.billing.existingSecret }}, paymentProvider{{ end }}]
  config:
    {{- include "berth.planConfig" . | nindent 4 }}
    PLAN_GRACE_DAYS: {{ $v.billing.graceDays | quote }}
    {{- with $v.billing.installation }}
    STRIPE_INSTALLATION: {{ . | quote }}
    {{- end }}
    {{- if $v.billing.tax }}
    STRIPE_TAX: "on"
    {{- end }}
  {{- if $v.billing.existingSecret }}
  secrets:
    STRIPE_SECRET_KEY: {of: billing, key: secret-key}
    STRIPE_WEBHOOK_SECRETS: {of: billing, key: webhook-secrets, optional: true}
  {{- end }}
{{- end -}}

{{- define "berth.clientIdMetadata" -}}
{{- ternary "on" "off" (and .Values.oauth.clientIdMetadata (ne .Values.oauth.provider "hydra")) -}}
{{- end -}}

{{/* What plans allow, for every process that enforces them. */}}
{{- define "berth.planConfig" -}}
{{- $b := .Values.billing -}}
DEFAULT_TIER: {{ $b.defaultTier | default (ternary "free" "enterprise" (ne $b.existingSecret "")) }}
PLAN_QUOTAS: {{ ternary "on" "off" $b.quotas | quote }}
{{- with $b.openPorts }}
PLAN_OPEN_PORTS: {{ . | toJson | quote }}
{{- end }}
{{- with $b.largestSizes }}
PLAN_SIZES: {{ . | toJson | quote }}
{{- end }}
{{- with $b.largestStorage }}
PLAN_STORAGE: {{ . | toJson | quote }}
{{- end }}
{{- with $b.backupDays }}
PLAN_BACKUP_DAYS: {{ . | toJson | quote }}
{{- end }}
{{- end -}}

{{- define "berth.oauthConfig" -}}
{{- $o := .Values.oauth -}}
IDENTITY_PROVIDER: {{ $o.provider }}
{{- if eq $o.provider "hydra" }}
HYDRA_ADMIN_URL: {{ $o.hydra.adminUrl | quote }}
{{- end }}
{{- with $o.resource }}
OAUTH_RESOURCE: {{ . | quote }}
{{- end }}
OAUTH_ACCESS_TOKEN_SECONDS: {{ $o.accessTokenSeconds | quote }}
OAUTH_CLIENT_ID_METADATA: {{ include "berth.clientIdMetadata" . | quote }}
OAUTH_REDIRECT_HOSTS: {{ join "," $o.redirectHosts | quote }}
OAUTH_ALLOW_CUSTOM_SCHEMES: {{ ternary "on" "off" $o.allowCustomSchemes | quote }}
{{- end -}}

{{- define "berth.deployerConfig" -}}
{{- $v := .Values -}}
ENGINE: kubernetes
{{- with $v.placement.arch }}
NODE_ARCHITECTURE: {{ . | quote }}
{{- end }}
APPS_PLACEMENT: {{ include "berth.placementJson" $v.placement.apps | quote }}
{{- with $v.placement.plans }}
{{- $plans := dict }}
{{- range $plan, $given := . }}{{ $_ := set $plans $plan (include "berth.placementJson" $given | fromJson) }}{{ end }}
PLAN_PLACEMENT: {{ $plans | toJson | quote }}
{{- end }}
BUILDER_PLACEMENT: {{ include "berth.placementJson" $v.placement.builds | quote }}
KUBE_NAMESPACE_PREFIX: {{ include "berth.appsPrefix" . | quote }}
KUBE_BUILD_NAMESPACE: {{ include "berth.buildsNamespace" . | quote }}
KUBE_WATCH: {{ $v.apps.watch | default "cluster" | quote }}
KUBE_ENVIRONMENT_ROLE: {{ include "berth.environmentRole" . | quote }}
KUBE_SERVICE_ACCOUNT: {{ printf "%s/%s" .Release.Namespace (include "berth.deployerAccount" .) | quote }}
APPS_DOMAIN: {{ $v.apps.domain | quote }}
APPS_SCHEME: {{ $v.apps.scheme | quote }}
{{- with $v.apps.port }}
APPS_PORT: {{ . | quote }}
{{- end }}
{{- if not $v.apps.ingress.enabled }}
INGRESS: "off"
{{- end }}
{{- with $v.apps.ingress.className }}
INGRESS_CLASS: {{ . | quote }}
{{- end }}
INGRESS_ANNOTATIONS: {{ $v.apps.ingress.annotations | toJson | quote }}
{{- with $v.apps.ingress.tlsSecret }}
INGRESS_TLS_SECRET: {{ . | quote }}
{{- end }}
{{- /* A values file of a release before has none of these. */}}
{{- with $v.apps.domains }}
{{- with .issuer }}
DOMAINS_ISSUER: {{ . | quote }}
{{- end }}
{{- with .addresses }}
DOMAINS_ADDRESSES: {{ join "," . | quote }}
{{- end }}
{{- with .target }}
DOMAINS_TARGET: {{ . | quote }}
{{- end }}
{{- if .wildcard }}
DOMAINS_WILDCARD: "on"
{{- end }}
{{- with .dnsServers }}
DNS_SERVERS: {{ join "," . | quote }}
{{- end }}
{{- with .redirectAnnotations }}
DOMAINS_REDIRECT_ANNOTATIONS: {{ . | toJson | quote }}
{{- end }}
{{- end }}
DOMAINS_RESERVED: {{ (urlParse $v.publicUrl).hostname | quote }}
APPS_DRAIN_SECONDS: {{ $v.apps.drainSeconds | quote }}
APPS_GRACE_SECONDS: {{ $v.apps.graceSeconds | quote }}
APPS_RESERVED: {{ $v.apps.reserved | toJson | quote }}
APPS_EGRESS_EXCEPT: {{ $v.apps.egressExcept | toJson | quote }}
{{- if hasKey $v.apps "closedPorts" }}
APPS_CLOSED_PORTS: {{ $v.apps.closedPorts | toJson | quote }}
{{- end }}
{{- with $v.apps.allowedRegistries }}
ALLOWED_REGISTRIES: {{ join "," . | quote }}
{{- end }}
{{- if and (hasKey $v.apps "accountRegistries") (not $v.apps.accountRegistries) }}
ACCOUNT_REGISTRIES: "off"
{{- end }}
{{- with $v.apps.imageDigests }}
IMAGE_DIGESTS: {{ . | quote }}
{{- end }}
DNS_PORTS: {{ $v.networkPolicy.dnsPorts | toJson | quote }}
{{- with $v.networkPolicy.dnsPeers }}
DNS_PEERS: {{ . | toJson | quote }}
{{- end }}
ENVIRONMENT_QUOTA: {{ $v.apps.quota | toJson | quote }}
{{- with $v.apps.httpRoute }}
{{- if .parentRefs }}
HTTP_ROUTES: {{ ternary "on" "off" .enabled | quote }}
HTTP_ROUTE_PARENTS: {{ .parentRefs | toJson | quote }}
HTTP_ROUTE_ANNOTATIONS: {{ .annotations | toJson | quote }}
HTTP_ROUTE_TIMEOUTS: {{ .timeouts | toJson | quote }}
{{- with .namespaceLabels }}
GATEWAY_NAMESPACE_LABELS: {{ . | toJson | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if not (kindIs "invalid" $v.apps.ingressNamespaceLabels) }}
INGRESS_NAMESPACE_LABELS: {{ $v.apps.ingressNamespaceLabels | toJson | quote }}
{{- end }}
INGRESS_FROM_CIDRS: {{ $v.apps.ingressFromCidrs | toJson | quote }}
{{- with $v.logs.loki }}
{{- if .url }}
LOKI_URL: {{ .url | quote }}
{{- with .tenant }}
LOKI_TENANT: {{ . | quote }}
{{- end }}
LOKI_DAYS: {{ .days | quote }}
LOKI_LABELS: {{ .labels | toJson | quote }}
{{- end }}
{{- end }}
{{- with $v.metrics.from }}
METRICS_PEERS: {{ . | toJson | quote }}
{{- end }}
{{- with ($v.apps.metrics | default dict).prometheusUrl }}
PROMETHEUS_URL: {{ . | quote }}
{{- end }}
S3_ENDPOINT: {{ include "berth.objectStoreUrl" . | quote }}
S3_PUBLIC_ENDPOINT: {{ $v.objectStore.publicUrl | default (include "berth.objectStoreUrl" .) | quote }}
S3_BUCKET: {{ $v.objectStore.bucket | quote }}
S3_REGION: {{ $v.objectStore.region | quote }}
REGISTRY_PUSH: {{ include "berth.registryPush" . | quote }}
REGISTRY_PULL: {{ include "berth.registryPull" . | quote }}
{{- if and $v.registry.bundled $v.registry.existingSecret }}
REGISTRY_ACCOUNT_PULLS: "true"
{{- end }}
REGISTRY_INSECURE: {{ or $v.registry.bundled $v.registry.insecure | quote }}
{{- if include "berth.registryLoginSecret" . }}
REGISTRY_AUTH: /etc/berth/registry/config.json
{{- end }}
{{- if include "berth.registryPullSecret" . }}
{{- /* Also where the keys come before it: a pod of an older chart that starts again in a roll-out reads this. */}}
REGISTRY_PULL_AUTH: /etc/berth/registry-pull/config.json
{{- end }}
{{- with $v.builds.imagePullSecret }}
REGISTRY_AUTH_SECRET: {{ . | quote }}
{{- end }}
BUILDS_AT_ONCE: {{ $v.builds.atOnce | int64 | quote }}
BUILDER_IMAGE: {{ include "berth.image" (dict "image" $v.builds.image "tag" .Chart.AppVersion) | quote }}
BUILDER_BASE_IMAGES: {{ $v.builds.baseImages | toJson | quote }}
{{- with $v.builds.buildpacks.builder }}
BUILDPACKS_BUILDER: {{ . | quote }}
{{- end }}
{{- with $v.builds.buildpacks.runImage }}
BUILDPACKS_RUN_IMAGE: {{ . | quote }}
{{- end }}
BUILDER_ENV: {{ $v.builds.env | toJson | quote }}
{{- if $v.builds.extraCaBundle }}
BUILDER_EXTRA_CA_BUNDLE: {{ include "berth.fullname" . }}-ca
{{- end }}
{{- with $v.builds.seccompProfile }}
BUILDER_SECCOMP_PROFILE: {{ . | quote }}
{{- end }}
{{- with $v.builds.appArmorProfile }}
BUILDER_APPARMOR_PROFILE: {{ . | quote }}
{{- end }}
BUILDER_USER_NAMESPACES: {{ $v.builds.userNamespaces | quote }}
BUILDER_RESOURCES: {{ $v.builds.resources | toJson | quote }}
ADDON_IMAGES: {{ dict "postgres" $v.apps.addons.postgresImage "redis" $v.apps.addons.redisImage | toJson | quote }}
{{- with $v.apps.addons.earlierImages }}
ADDON_EARLIER_IMAGES: {{ . | toJson | quote }}
{{- end }}
{{- if hasKey $v.apps.addons "patches" }}
ADDON_PATCHES: {{ ternary "on" "off" $v.apps.addons.patches | quote }}
{{- end }}
{{- with $v.apps.addons.storageClassName }}
ADDON_STORAGE_CLASS: {{ . | quote }}
{{- end }}
ADDON_USER: {{ with $v.apps.addons.runAsUser }}{{ int64 . | quote }}{{ else }}any{{ end }}
ADDON_COPY_IMAGE: {{ $v.apps.addons.copyImage | default (include "berth.platformImage" .) | quote }}
{{- with $v.apps.addons.poolerImage }}
ADDON_POOLER_IMAGE: {{ . | quote }}
{{- end }}
{{- if hasKey $v.apps.addons "backupProofs" }}
ADDON_PROOFS: {{ ternary "on" "off" $v.apps.addons.backupProofs | quote }}
{{- end }}
{{- if hasKey $v.apps.addons "backupsKept" }}
ADDON_BACKUPS_KEPT: {{ $v.apps.addons.backupsKept | quote }}
{{- end }}
ADDON_COPIES_TO: {{ include "berth.toServer" (dict "root" . "component" "object-store" "port" 7070 "values" $v.objectStore "cidrs" $v.networkPolicy.objectStoreCidrs "address" $v.objectStore.endpoint "elsewhere" true) | fromYamlArray | toJson | quote }}
{{- if ne ($v.apps.addons.postgresEngine | default "statefulset") "statefulset" }}
ADDON_POSTGRES_ENGINE: {{ $v.apps.addons.postgresEngine | quote }}
ADDON_OPERATOR_NAMESPACE: {{ $v.apps.addons.operatorNamespace | default "cnpg-system" | quote }}
ADDON_INSTANCES_TO: {{ include "berth.toApiServer" . | fromYamlArray | toJson | quote }}
{{- if include "berth.archive" . }}
{{- $archive := $v.apps.addons.archive }}
ADDON_ARCHIVE: {{ merge (pick $archive "endpoint" "bucket" "region" "days") (dict "to" (include "berth.toArchive" . | fromYamlArray)) | toJson | quote }}
{{- end }}
{{- end }}
ADDON_STORAGE_SIZE: {{ $v.apps.addons.storageSize | quote }}
{{- if $v.apps.addons.storageGrows }}
ADDON_STORAGE_GROWS: "on"
{{- end }}
{{- end -}}

{{/*
How many connections to the database may be open at once: in a roll-out, as many pods as a process has end beside the new
ones. And 30 for the hook, for operations, and for PostgreSQL itself.
*/}}
{{- define "berth.connections" -}}
{{- $sum := 30 -}}
{{- range include "berth.processes" . | fromYamlArray -}}
{{- $settings := include "berth.settings" (dict "root" $ "process" .) | fromYaml -}}
{{- $pods := ternary $settings.autoscaling.maxReplicas $settings.replicas $settings.autoscaling.enabled -}}
{{- $sum = add $sum (mul 2 (int $pods) (int .connections)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{- define "berth.databaseHost" -}}
{{- if .Values.database.bundled }}{{ include "berth.fullname" . }}-postgres:5432{{ else }}{{ .Values.database.host }}:{{ .Values.database.port }}{{ end -}}
{{- end -}}

{{/* URL of the database as a process's role sees it; the password is in PGPASSWORD. */}}
{{- define "berth.databaseUrl" -}}
{{- $d := .root.Values.database -}}
postgres://{{ $d.rolePrefix }}{{ .process }}@{{ include "berth.databaseHost" .root }}/{{ $d.name }}{{ include "berth.databaseParameters" (dict "root" .root "tls" (include "berth.databaseTls" .root)) }}
{{- end -}}

{{- define "berth.objectStoreUrl" -}}
{{- if .Values.objectStore.bundled }}http://{{ include "berth.fullname" . }}-object-store.{{ .Release.Namespace }}:7070{{ else }}{{ .Values.objectStore.endpoint }}{{ end -}}
{{- end -}}

{{- define "berth.registryPush" -}}
{{- if .Values.registry.bundled }}{{ include "berth.fullname" . }}-registry.{{ .Release.Namespace }}:5000{{ else }}{{ .Values.registry.push }}{{ end -}}
{{- end -}}

{{- define "berth.registryPull" -}}
{{- if .Values.registry.pull }}{{ .Values.registry.pull }}{{ else if .Values.registry.bundled }}localhost:{{ .Values.registry.nodePort }}{{ else }}{{ .Values.registry.push }}{{ end -}}
{{- end -}}

{{/* The docker config Secret with which builds push; "" when the registry asks for none. */}}
{{- define "berth.registryLoginSecret" -}}
{{- if .Values.registry.existingSecret }}{{ .Values.registry.existingSecret }}{{ else if .Values.registry.bundled }}{{ include "berth.fullname" . }}-registry-login{{ end -}}
{{- end -}}

{{/* The one with which nodes pull; "" when it is the same, or made of that. */}}
{{- define "berth.registryPullSecret" -}}
{{- if or .Values.registry.pullSecret (and .Values.registry.bundled (not .Values.registry.existingSecret)) }}{{ include "berth.secretName" (dict "root" . "of" "registryPull") }}{{ end -}}
{{- end -}}
