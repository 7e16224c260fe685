{{/* Which Secret holds something: (dict "root" $ "of" "keys|owner|database|admin|nats|smtp|billing|loki|objectStore|archive|registry|registryLogin|registryPull|tls"). */}}
{{- define "berth.secretName" -}}
{{- include "berth.givenSecret" . | default (include "berth.madeSecret" .) -}}
{{- end -}}

{{- define "berth.givenSecret" -}}
{{- $v := .root.Values -}}
{{- get (dict
  "keys" $v.keys.existingSecret
  "owner" $v.owner.existingSecret
  "database" $v.database.existingSecret
  "admin" $v.database.admin.existingSecret
  "nats" $v.nats.existingSecret
  "smtp" $v.smtp.existingSecret
  "billing" (get ($v.billing | default dict) "existingSecret")
  "loki" $v.logs.loki.existingSecret
  "objectStore" $v.objectStore.existingSecret
  "archive" (dig "archive" "existingSecret" "" $v.apps.addons)
  "registry" ($v.registry.bundled | ternary $v.registry.existingSecret "")
  "registryLogin" $v.registry.existingSecret
  "registryPull" $v.registry.pullSecret
  "tls" (get ($v.bundledTls | default dict) "existingSecret")) .of -}}
{{- end -}}

{{- define "berth.madeSecret" -}}
{{- $suffix := dict "admin" "database" "objectStore" "object-store" "registryLogin" "registry-login" "registryPull" "registry-pull" -}}
{{- printf "%s-%s" (include "berth.fullname" .root) (get $suffix .of | default .of) -}}
{{- end -}}

{{/*
The Secrets that the chart generates with these values, each as the value that names the operator's own in its place, and
a command that prints what that one holds, line by line.
*/}}
{{- define "berth.generated" -}}
{{- $v := .Values -}}
{{- $names := list -}}
{{- range include "berth.processes" . | fromYamlArray }}{{ $names = append $names .name }}{{ end -}}
{{- $each := printf "for one in %s; do echo \"$one=%%s\"; done" (join " " $names) -}}
{{- $secret := "$(openssl rand -hex 24)" -}}
{{- $key := "$(openssl rand -base64 32)" -}}
{{- $all := list -}}
{{- if not $v.keys.existingSecret }}{{ $all = append $all (dict "value" "keys.existingSecret" "suffix" "keys" "lines" (printf "echo \"internal-keys=%s\"; echo \"encryption-keys=k1:%s\"; echo \"secret-keys=%s\"" $key $key $key)) }}{{ end -}}
{{- if not $v.owner.existingSecret }}{{ $all = append $all (dict "value" "owner.existingSecret" "suffix" "owner" "lines" (printf "echo \"password=%s\"" $secret)) }}{{ end -}}
{{- if not $v.database.existingSecret }}{{ $all = append $all (dict "value" "database.existingSecret" "suffix" "database" "lines" (printf $each $secret)) }}{{ end -}}
{{- if and $v.database.bundled (not $v.database.admin.existingSecret) }}{{ $all = append $all (dict "value" "database.admin.existingSecret" "suffix" "admin" "lines" (printf "echo \"%s=%s\"" $v.database.admin.passwordKey $secret)) }}{{ end -}}
{{- if and $v.nats.bundled (not $v.nats.existingSecret) }}{{ $all = append $all (dict "value" "nats.existingSecret" "suffix" "nats" "lines" (printf (replace "billing; do" "billing operator; do" $each) (printf "n%s" $secret))) }}{{ end -}}
{{- if and $v.objectStore.bundled (not $v.objectStore.existingSecret) }}{{ $all = append $all (dict "value" "objectStore.existingSecret" "suffix" "object-store" "lines" (printf "echo \"access-key=$(openssl rand -hex 10)\"; echo \"secret-key=%s\"" $secret)) }}{{ end -}}
{{- if and $v.registry.bundled (not $v.registry.existingSecret) }}{{ $all = append $all (dict "value" "registry.existingSecret" "suffix" "registry" "type" "kubernetes.io/dockerconfigjson" "lines" (printf "printf '.dockerconfigjson={\"auths\":{\"%s\":{\"auth\":\"%%s\"}}}\\n' \"$(printf 'berth:%%s' \"%s\" | openssl base64 -A)\"" (include "berth.registryPush" . | splitList "/" | first) $secret)) }}{{ end -}}
{{- if and (include "berth.tls" .) (not $v.bundledTls.existingSecret) }}{{ $all = append $all (dict "value" "bundledTls.existingSecret" "suffix" "tls" "certificate" true) }}{{ end -}}
{{- toYaml $all -}}
{{- end -}}

{{/*
A list of one sentence, with the commands, if this rendering would generate Secrets but sees no cluster that could have
them already: another rendering would generate others, and what was encrypted with these could not be read again. A
cluster always has the namespace `default`, and whoever installs the chart may read namespaces.
*/}}
{{- define "berth.secretMistakes" -}}
{{- $mistakes := list -}}
{{- $generated := list -}}
{{- if not (lookup "v1" "Namespace" "" "default") }}{{ $generated = include "berth.generated" . | fromYamlArray }}{{ end -}}
{{- if $generated -}}
{{- $values := list -}}
{{- $commands := list -}}
{{- range $generated -}}
{{- $name := printf "%s-own-%s" (include "berth.fullname" $) .suffix -}}
{{- $values = append $values (printf "%s=%s" .value $name) -}}
{{- if .certificate }}{{ $commands = append $commands (include "berth.certificateCommand" (dict "root" $ "name" $name)) }}{{ else -}}
{{- $commands = append $commands (printf "{ %s; } |\n      kubectl create secret generic %s -n %s%s --from-env-file=/dev/stdin" .lines $name $.Release.Namespace (.type | empty | ternary "" (printf " --type=%s" .type))) -}}
{{- end -}}
{{- end -}}
{{- $mistakes = append $mistakes (printf "%s: this rendering sees no cluster (helm template, --dry-run=client, Argo CD), so the chart would generate other Secrets each time, and variables encrypted with the previous keys could not be read. Render with --dry-run=server, or create the Secrets once:\n\n    %s\n\n    and name them: --set %s\n    An installation that generated its Secrets already must keep them: docs/gitops.md#an-installation-that-generated-its-secrets explains how." (regexReplaceAll "=[^,]*" (join ", " $values) "") (join "\n    " $commands) (join "," $values)) -}}
{{- end -}}
{{- toYaml $mistakes -}}
{{- end -}}

{{/*
A secret that is generated once: what the Secret in the cluster holds, else (`copied`) the copy that an installation
which failed has left (prepare.yaml), else what this rendering generated before, else a new one.
(dict "root" $ "secret" name "key" key "kind" "key|encryption|letters|password" "copied" true).
*/}}
{{- define "berth.made" -}}
{{- $new := "" -}}
{{- if eq .kind "key" }}{{ $new = randBytes 32 -}}
{{- else if eq .kind "encryption" }}{{ $new = printf "k%s:%s" (randNumeric 8) (randBytes 32) -}}
{{- else if eq .kind "letters" }}{{ $new = randAlpha 40 -}}
{{- else }}{{ $new = randAlphaNum 32 }}{{ end -}}
{{- include "berth.madeOf" (set . "new" $new) -}}
{{- end -}}

{{- define "berth.madeOf" -}}
{{- $values := .root.Values -}}
{{- if not (hasKey $values "made") }}{{ $_ := set $values "made" dict }}{{ end -}}
{{- $id := printf "%s/%s" .secret .key -}}
{{- if not (hasKey $values.made $id) -}}
{{- $known := "" -}}
{{- range ternary (list .secret (include "berth.prepareName" .root)) (list .secret) (.copied | default false) -}}
{{- $there := lookup "v1" "Secret" $.root.Release.Namespace . | default dict -}}
{{- $known = $known | default (get ($there.data | default dict) $.key) -}}
{{- end -}}
{{- $_ := set $values.made $id (empty $known | ternary .new (b64dec $known)) -}}
{{- end -}}
{{- get $values.made $id -}}
{{- end -}}

{{/* Data of the Secrets that the chart generates, as text: each a map of plain values. */}}
{{- define "berth.data.keys" -}}
{{- $s := include "berth.madeSecret" (dict "root" . "of" "keys") -}}
internal-keys: {{ include "berth.made" (dict "root" . "secret" $s "key" "internal-keys" "kind" "key") | quote }}
encryption-keys: {{ include "berth.made" (dict "root" . "secret" $s "key" "encryption-keys" "kind" "encryption" "copied" true) | quote }}
secret-keys: {{ include "berth.made" (dict "root" . "secret" $s "key" "secret-keys" "kind" "key") | quote }}
{{- end -}}

{{- define "berth.data.owner" -}}
{{- $s := include "berth.madeSecret" (dict "root" . "of" "owner") -}}
password: {{ include "berth.made" (dict "root" . "secret" $s "key" "password" "kind" "password") | quote }}
{{- end -}}

{{- define "berth.data.database" -}}
{{- $root := . -}}
{{- $s := printf "%s-database" (include "berth.fullname" .) -}}
{{- if not .Values.database.existingSecret }}
{{- range include "berth.processes" . | fromYamlArray }}
{{ .name }}: {{ include "berth.made" (dict "root" $root "secret" $s "key" .name "kind" "password" "copied" true) | quote }}
{{- end }}
{{- end }}
{{- if and .Values.database.bundled (not .Values.database.admin.existingSecret) }}
{{ .Values.database.admin.passwordKey }}: {{ include "berth.made" (dict "root" $root "secret" $s "key" .Values.database.admin.passwordKey "kind" "password" "copied" true) | quote }}
{{- end }}
{{- end -}}

{{- define "berth.data.nats" -}}
{{- $root := . -}}
{{- $s := include "berth.madeSecret" (dict "root" . "of" "nats") -}}
{{- range include "berth.processes" . | fromYamlArray }}
{{ .name }}: {{ include "berth.made" (dict "root" $root "secret" $s "key" .name "kind" "letters") | quote }}
{{- end }}
operator: {{ include "berth.made" (dict "root" . "secret" $s "key" "operator" "kind" "letters") | quote }}
{{- end -}}

{{- define "berth.data.objectStore" -}}
{{- $s := include "berth.madeSecret" (dict "root" . "of" "objectStore") -}}
access-key: {{ include "berth.made" (dict "root" . "secret" $s "key" "access-key" "kind" "letters") | trunc 20 | quote }}
secret-key: {{ include "berth.made" (dict "root" . "secret" $s "key" "secret-key" "kind" "password") | quote }}
{{- end -}}

{{/*
The logins of the bundled registry: `berth` pushes; those of accounts, which are made of the keys, only pull. So does
`nodes`, which environments have from an older chart until the deployer gives them their account's. A hash gets a new salt at each rendering, so the ones in the cluster are kept.
*/}}
{{- define "berth.data.registry" -}}
{{- $of := dict "root" . "secret" (include "berth.madeSecret" (dict "root" . "of" "registry")) "kind" "password" -}}
{{- $password := include "berth.made" (set $of "key" "password") -}}
password: {{ $password | quote }}
pull-password: {{ include "berth.made" (set $of "key" "pull-password") | quote }}
pull-keys: {{ include "berth.madeOf" (set (set $of "key" "pull-keys") "new" (randBytes 32)) | quote }}
htpasswd: {{ include "berth.madeOf" (set (set $of "key" "htpasswd") "new" (htpasswd "berth" $password)) | quote }}
{{- end -}}

{{/* Of builds and the deployer. The login for pulls is here too, for a deployer of an older chart. */}}
{{- define "berth.data.registryLogin" -}}
{{- $made := include "berth.data.registry" . | fromYaml -}}
{{- $push := dict (include "berth.registryPush" . | splitList "/" | first) (dict "auth" (printf "berth:%s" $made.password | b64enc)) -}}
.dockerconfigjson: {{ dict "auths" (merge $push (include "berth.registryPullAuths" . | fromJson)) | toJson | quote }}
{{- end -}}

{{/* Of nodes, for a deployer of an older chart: it is in the namespace of each environment. */}}
{{- define "berth.data.registryPull" -}}
.dockerconfigjson: {{ dict "auths" (include "berth.registryPullAuths" . | fromJson) | toJson | quote }}
{{- end -}}

{{- define "berth.registryPullAuths" -}}
{{- $password := get (include "berth.data.registry" . | fromYaml) "pull-password" -}}
{{- dict (include "berth.registryPull" . | splitList "/" | first) (dict "auth" (printf "nodes:%s" $password | b64enc)) | toJson -}}
{{- end -}}

{{/* A text that changes when a Secret does: what the chart generated, or the version of a Secret that was given. */}}
{{- define "berth.secretMark" -}}
{{- with include "berth.givenSecret" . -}}
{{- dig "metadata" "resourceVersion" "" (lookup "v1" "Secret" $.root.Release.Namespace . | default dict) -}}
{{- else -}}
{{- include (printf "berth.data.%s" (eq .of "admin" | ternary "database" .of)) .root -}}
{{- end -}}
{{- end -}}
