{{/* Pod Security `restricted`. (dict "user" 1000 "group" 1000); without a user the cluster chooses one. */}}
{{- define "berth.podSecurity" -}}
runAsNonRoot: true
{{- if .user }}
runAsUser: {{ int64 .user }}
runAsGroup: {{ .group | default .user | int64 }}
fsGroup: {{ .group | default .user | int64 }}
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "berth.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What all pods of the platform image have in common. */}}
{{- define "berth.podBasics" -}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext: {{ include "berth.podSecurity" (dict "user" .Values.podSecurity.runAsUser "group" .Values.podSecurity.runAsGroup) | nindent 2 }}
{{- end -}}

{{- define "berth.containerBasics" -}}
image: {{ include "berth.platformImage" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{ include "berth.containerSecurity" . | nindent 2 }}
{{- end -}}

{{/* The settings of one process: defaults, then its own. */}}
{{- define "berth.settings" -}}
{{- $own := get .root.Values.processes .process.name | default dict -}}
{{- $settings := mergeOverwrite (deepCopy .root.Values.defaults) (deepCopy $own) -}}
{{- if eq .process.name "deployer" }}{{ $_ := set $settings.autoscaling "enabled" false }}{{ end -}}
{{- $settings | toYaml -}}
{{- end -}}

{{/* The part of a process's environment that is no secret, for its ConfigMap. */}}
{{- define "berth.config" -}}
{{- $v := .root.Values -}}
HOST: 0.0.0.0
PORT: "8080"
{{- if ne .process.name "gateway" }}
GRPC_PORT: "9090"
{{- end }}
LOG_LEVEL: {{ $v.logLevel }}
LINGER_MS: "2000"
PUBLIC_ORIGIN: {{ $v.publicUrl | trimSuffix "/" | quote }}
DATABASE_URL: {{ include "berth.databaseUrl" (dict "root" .root "process" .process.name) | quote }}
{{- range .process.calls }}
{{ upper . }}_URL: http://{{ include "berth.fullname" $.root }}-{{ . }}:8080
{{- end }}
{{- with $v.tracing.otlpEndpoint }}
OTEL_EXPORTER_OTLP_ENDPOINT: {{ . | quote }}
{{- end }}
{{- if $v.extraCaConfigMap }}
NODE_EXTRA_CA_CERTS: /etc/berth/ca/ca.crt
{{- end }}
{{- with .process.config }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The part of a process's environment that is secret. */}}
{{- define "berth.secretEnv" -}}
{{- $root := .root -}}
{{- include "berth.databasePassword" . }}
- name: INTERNAL_KEYS
  valueFrom: {secretKeyRef: {name: {{ include "berth.secretName" (dict "root" $root "of" "keys") | quote }}, key: internal-keys}}
{{- range $name, $from := .process.secrets }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ include "berth.secretName" (dict "root" $root "of" $from.of) | quote }}, key: {{ $from.key }}, optional: {{ $from.optional | default false }}}}
{{- end }}
{{ include "berth.natsEnv" . }}
{{- end -}}

{{- define "berth.databasePassword" -}}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "berth.secretName" (dict "root" .root "of" "database") | quote }}, key: {{ .process.name }}}}
{{- end -}}

{{- define "berth.natsEnv" -}}
{{- $n := .root.Values.nats -}}
{{- if or $n.bundled $n.user -}}
- name: NATS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "berth.secretName" (dict "root" .root "of" "nats") | quote }}, key: {{ $n.bundled | ternary .process.name "password" }}}}
- name: NATS_URL
  {{- if $n.bundled }}
  {{- $tls := include "berth.natsTls" .root }}
  value: {{ empty $tls | ternary "nats" "tls" }}://{{ .process.name }}:$(NATS_PASSWORD)@{{ include "berth.fullname" .root }}-nats:4222{{ if $tls }}?ca={{ include "berth.serversCa" . }}{{ end }}
  {{- else }}
  value: {{ regexReplaceAll "^([a-z]+://)" $n.url (printf "${1}%s:$(NATS_PASSWORD)@" $n.user) | quote }}
  {{- end }}
{{- else -}}
- name: NATS_URL
  value: {{ $n.url | quote }}
{{- end -}}
{{- end -}}

{{/* Every Secret that a process reads: its pods are rolled when one changes. */}}
{{- define "berth.secretMarks" -}}
{{- $root := .root -}}
{{- $of := list "keys" "database" "nats" -}}
{{- range concat (values (.process.secrets | default dict)) (.process.files | default list) }}{{ $of = append $of .of }}{{ end -}}
{{- /* Sorted, because `values` gives them in any order, and another order would roll the pods. */ -}}
{{- range $of | uniq | sortAlpha -}}
{{- include "berth.secretMark" (dict "root" $root "of" .) -}}
{{- end -}}
{{- end -}}

{{/* Spreads the pods of one component over nodes and zones, where possible. */}}
{{- define "berth.spread" -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- topologyKey: {{ . }}
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{ include "berth.selector" $ | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end -}}

{{/* Where a pod of the platform may run: (dict "root" $ "own" its settings, each of which comes before the platform's). */}}
{{- define "berth.placement" -}}
{{- $platform := (.root.Values.placement).platform | default dict -}}
{{- $own := .own -}}
{{- range $member := list "nodeSelector" "tolerations" "affinity" "priorityClassName" "runtimeClassName" }}
{{- with get $own $member | default (get $platform $member) }}
{{ $member }}: {{ if kindIs "string" . }}{{ . | quote }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A placement for the deployer, without what is not set. */}}
{{- define "berth.placementJson" -}}
{{- $given := dict -}}
{{- range $member, $value := . }}{{ if $value }}{{ $_ := set $given $member $value }}{{ end }}{{ end -}}
{{- toJson $given -}}
{{- end -}}

{{/* The certificates of authorities: of the operator's own, and of the bundled servers (_tls.tpl). */}}
{{- define "berth.caVolume" -}}
{{- if .Values.extraCaConfigMap }}
- name: ca
  configMap: {name: {{ .Values.extraCaConfigMap | quote }}}
{{- end }}
{{- if include "berth.tls" . }}
{{ include "berth.serversCaVolume" (include "berth.secretName" (dict "root" . "of" "tls")) }}
{{- end }}
{{- end -}}

{{- define "berth.caMount" -}}
{{- if .Values.extraCaConfigMap }}
- {name: ca, mountPath: /etc/berth/ca, readOnly: true}
{{- end }}
{{- if include "berth.tls" . }}
{{ include "berth.serversCaMount" . }}
{{- end }}
{{- end -}}
