{{/* Which Secret holds something: (dict "root" $ "of" "keys|owner|database|admin|nats|objectStore"). */}}
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
  "objectStore" $v.objectStore.existingSecret) .of -}}
{{- end -}}

{{- define "berth.madeSecret" -}}
{{- $suffix := dict "admin" "database" "objectStore" "object-store" -}}
{{- printf "%s-%s" (include "berth.fullname" .root) (get $suffix .of | default .of) -}}
{{- end -}}

{{/*
A secret that is made once: what the Secret in the cluster holds, else what this rendering made before, else a new one.
(dict "root" $ "secret" name "key" key "kind" "key|encryption|letters|password").
*/}}
{{- define "berth.made" -}}
{{- $values := .root.Values -}}
{{- if not (hasKey $values "made") }}{{ $_ := set $values "made" dict }}{{ end -}}
{{- $made := $values.made -}}
{{- $id := printf "%s/%s" .secret .key -}}
{{- if not (hasKey $made $id) -}}
{{- $there := lookup "v1" "Secret" .root.Release.Namespace .secret | default dict -}}
{{- $known := get ($there.data | default dict) .key -}}
{{- if $known -}}
{{- $_ := set $made $id (b64dec $known) -}}
{{- else if eq .kind "key" -}}
{{- $_ := set $made $id (randBytes 32) -}}
{{- else if eq .kind "encryption" -}}
{{- $_ := set $made $id (printf "k%s:%s" (randNumeric 8) (randBytes 32)) -}}
{{- else if eq .kind "letters" -}}
{{- $_ := set $made $id (randAlpha 40) -}}
{{- else -}}
{{- $_ := set $made $id (randAlphaNum 32) -}}
{{- end -}}
{{- end -}}
{{- get $made $id -}}
{{- end -}}

{{/* Data of the Secrets that the chart makes, as text: each a map of plain values. */}}
{{- define "berth.data.keys" -}}
{{- $s := include "berth.madeSecret" (dict "root" . "of" "keys") -}}
internal-keys: {{ include "berth.made" (dict "root" . "secret" $s "key" "internal-keys" "kind" "key") | quote }}
encryption-keys: {{ include "berth.made" (dict "root" . "secret" $s "key" "encryption-keys" "kind" "encryption") | quote }}
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
{{ .name }}: {{ include "berth.made" (dict "root" $root "secret" $s "key" .name "kind" "password") | quote }}
{{- end }}
{{- end }}
{{- if and .Values.database.bundled (not .Values.database.admin.existingSecret) }}
{{ .Values.database.admin.passwordKey }}: {{ include "berth.made" (dict "root" $root "secret" $s "key" .Values.database.admin.passwordKey "kind" "password") | quote }}
{{- end }}
{{- end -}}

{{- define "berth.data.nats" -}}
{{- $root := . -}}
{{- $s := include "berth.madeSecret" (dict "root" . "of" "nats") -}}
{{- range include "berth.processes" . | fromYamlArray }}
{{ .name }}: {{ include "berth.made" (dict "root" $root "secret" $s "key" .name "kind" "letters") | quote }}
{{- end }}
{{- end -}}

{{- define "berth.data.objectStore" -}}
{{- $s := include "berth.madeSecret" (dict "root" . "of" "objectStore") -}}
access-key: {{ include "berth.made" (dict "root" . "secret" $s "key" "access-key" "kind" "letters") | trunc 20 | quote }}
secret-key: {{ include "berth.made" (dict "root" . "secret" $s "key" "secret-key" "kind" "password") | quote }}
{{- end -}}

{{/* A text that changes when a Secret does: what the chart made, or the version of one that was given. */}}
{{- define "berth.secretMark" -}}
{{- with include "berth.givenSecret" . -}}
{{- dig "metadata" "resourceVersion" "" (lookup "v1" "Secret" $.root.Release.Namespace . | default dict) -}}
{{- else -}}
{{- include (printf "berth.data.%s" (eq .of "admin" | ternary "database" .of)) .root -}}
{{- end -}}
{{- end -}}
