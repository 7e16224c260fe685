{{/*
TLS between the platform's processes and the bundled PostgreSQL and NATS (bundledTls), by one certificate for both. Each of
these is "" without it.
*/}}
{{- define "berth.databaseTls" -}}
{{- $mode := dig "mode" "disable" (.Values.bundledTls | default dict) -}}
{{- if and .Values.database.bundled (ne $mode "disable") }}{{ $mode }}{{ end -}}
{{- end -}}

{{- define "berth.natsTls" -}}
{{- $mode := dig "mode" "disable" (.Values.bundledTls | default dict) -}}
{{- if and .Values.nats.bundled (ne $mode "disable") }}{{ $mode }}{{ end -}}
{{- end -}}

{{- define "berth.tls" -}}
{{- include "berth.databaseTls" . | default (include "berth.natsTls" .) -}}
{{- end -}}

{{/* Where processes find the authorities that they trust to vouch for the servers. */}}
{{- define "berth.serversCa" -}}
/etc/berth/servers-ca/ca.crt
{{- end -}}

{{- define "berth.serversCaVolume" -}}
- name: servers-ca
  secret: {secretName: {{ . | quote }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end -}}

{{- define "berth.serversCaMount" -}}
- {name: servers-ca, mountPath: {{ include "berth.serversCa" . | dir }}, readOnly: true}
{{- end -}}

{{/* What a URL of the database has: (dict "root" $ "tls" whether the server has TLS). */}}
{{- define "berth.databaseParameters" -}}
{{- $all := list -}}
{{- with .root.Values.database.parameters }}{{ $all = append $all . }}{{ end -}}
{{- if .tls }}{{ $all = append $all (printf "sslmode=verify-full&sslrootcert=%s" (include "berth.serversCa" .)) }}{{ end -}}
{{- if $all }}?{{ join "&" $all }}{{ end -}}
{{- end -}}

{{/* Of a server. PostgreSQL refuses a key that others than its group may read. */}}
{{- define "berth.certificateVolume" -}}
- name: certificate
  secret:
    secretName: {{ include "berth.secretName" (dict "root" . "of" "tls") | quote }}
    defaultMode: 0440
    items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
{{- end -}}

{{- define "berth.certificateMount" -}}
- {name: certificate, mountPath: /etc/berth-certificate, readOnly: true}
{{- end -}}

{{/* Makes a server (`reload.sh PID`) read its certificate again when the Secret has another one. */}}
{{- define "berth.reloadScript" -}}
reload.sh: |
  seen=$(cksum </etc/berth-certificate/tls.crt)
  while sleep 30 && kill -0 "$1"; do
    now=$(cksum </etc/berth-certificate/tls.crt)
    if [ "$now" != "$seen" ]; then kill -HUP "$1"; fi
    seen=$now
  done
{{- end -}}

{{/* Creates a Secret with a certificate that vouches for itself: (dict "root" $ "name" of the Secret). */}}
{{- define "berth.certificateCommand" -}}
{{- $release := include "berth.fullname" .root -}}
folder=$(mktemp -d) && openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN={{ $release }}-postgres \
      -addext subjectAltName=DNS:{{ $release }}-postgres,DNS:{{ $release }}-nats -keyout "$folder/tls.key" -out "$folder/tls.crt" &&
      kubectl create secret generic {{ .name }} -n {{ .root.Release.Namespace }} --from-file="$folder/tls.key" --from-file="$folder/tls.crt" --from-file="ca.crt=$folder/tls.crt"; rm -r "$folder"
{{- end -}}

{{/*
The certificate that the chart generates, for ten years: kept for five, so that each upgrade after these generates another
one in time. Its authority's key is thrown away: nobody can issue a second one.
*/}}
{{- define "berth.data.tls" -}}
{{- $s := include "berth.madeSecret" (dict "root" . "of" "tls") -}}
{{- if not (hasKey .Values "madeTls") -}}
{{- $there := get (lookup "v1" "Secret" .Release.Namespace $s | default dict) "data" | default dict -}}
{{- $made := dict -}}
{{- range $key := list "ca.crt" "tls.crt" "tls.key" "renew-after" }}{{ $_ := set $made $key (get $there $key | b64dec) }}{{ end -}}
{{- if or (has "" (values $made)) (lt (get $made "renew-after" | int64) (now | unixEpoch | int64)) -}}
{{- $names := list -}}
{{- range $server := list "postgres" "nats" -}}
{{- $name := printf "%s-%s" (include "berth.fullname" $) $server -}}
{{- $names = concat $names (list $name (printf "%s.%s" $name $.Release.Namespace) (printf "%s.%s.svc" $name $.Release.Namespace)) -}}
{{- end -}}
{{- $ca := genCA (printf "%s-servers" (include "berth.fullname" .)) 3650 -}}
{{- $cert := genSignedCert (first $names) nil $names 3650 $ca -}}
{{- $later := now | dateModify "+43800h" | unixEpoch -}}
{{- $made = dict "ca.crt" $ca.Cert "tls.crt" $cert.Cert "tls.key" $cert.Key "renew-after" $later -}}
{{- end -}}
{{- $_ := set .Values "madeTls" $made -}}
{{- end -}}
{{- toYaml .Values.madeTls -}}
{{- end -}}
