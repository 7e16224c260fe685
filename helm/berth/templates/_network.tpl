{{- define "berth.toDns" -}}
- ports:
    {{- range .Values.networkPolicy.dnsPorts }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .Values.networkPolicy.dnsPeers }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/*
Egress to a server: to its pods when bundled, else to the given addresses (to any, on its port, when none are given).
(dict "root" $ "component" "…" "port" n "values" … "cidrs" … "address" URL "elsewhere" true in another namespace)
*/}}
{{- define "berth.toServer" -}}
{{- if .values.bundled -}}
- to:
    - podSelector:
        matchLabels: {{ include "berth.selector" . | nindent 10 }}
      {{- if .elsewhere }}
      namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ .root.Release.Namespace | quote }}}
      {{- end }}
  ports:
    - {protocol: TCP, port: {{ .port }}}
{{- else -}}
{{- $ports := list -}}
{{- range splitList "," .address }}{{ $ports = append $ports (include "berth.portOf" .) }}{{ end -}}
- ports:
    {{- range uniq $ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .cidrs }}
  to:
    {{- range . }}
    - ipBlock: {cidr: {{ . }}}
    {{- end }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* "true" where servers of CloudNativePG have archives. */}}
{{- define "berth.archive" -}}
{{- if and (ne (.Values.apps.addons.postgresEngine | default "statefulset") "statefulset") (dig "archive" "endpoint" "" .Values.apps.addons) }}true{{ end -}}
{{- end -}}

{{- define "berth.toArchive" -}}
{{- $archive := .Values.apps.addons.archive -}}
{{- include "berth.toServer" (dict "values" dict "cidrs" $archive.cidrs "address" $archive.endpoint) -}}
{{- end -}}

{{- define "berth.toDatabase" -}}
{{- include "berth.toServer" (dict "root" . "component" "postgres" "port" 5432 "values" .Values.database "cidrs" .Values.networkPolicy.databaseCidrs "address" (printf "postgres://%s:%v" .Values.database.host .Values.database.port)) -}}
{{- end -}}

{{- define "berth.toNats" -}}
{{- include "berth.toServer" (dict "root" . "component" "nats" "port" 4222 "values" .Values.nats "cidrs" .Values.networkPolicy.natsCidrs "address" .Values.nats.url) -}}
{{- end -}}

{{- define "berth.toObjectStore" -}}
{{- include "berth.toServer" (dict "root" . "component" "object-store" "port" 7070 "values" .Values.objectStore "cidrs" .Values.networkPolicy.objectStoreCidrs "address" .Values.objectStore.endpoint) -}}
{{- end -}}

{{- define "berth.toRegistry" -}}
{{- $r := .root.Values.registry -}}
{{- $address := printf "%s://%s" (ternary "http" "https" $r.insecure) $r.push -}}
{{- include "berth.toServer" (merge (dict "component" "registry" "port" 5000 "values" $r "cidrs" .root.Values.networkPolicy.registryCidrs "address" $address) .) -}}
{{- end -}}

{{- define "berth.toApiServer" -}}
{{- with .Values.networkPolicy -}}
- ports:
    {{- range .apiServerPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .apiServerCidrs }}
  to:
    {{- range . }}
    - ipBlock: {cidr: {{ . }}}
    {{- end }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* Egress to the internet: (dict "ports" (list 443) "except" addresses that do not belong to it). */}}
{{- define "berth.toInternet" -}}
- ports:
    {{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  to:
    {{- range $all := list "0.0.0.0/0" "::/0" }}
    - ipBlock:
        cidr: {{ $all | quote }}
        {{- $except := list }}
        {{- range $.except }}{{ if eq (contains ":" .) (contains ":" $all) }}{{ $except = append $except . }}{{ end }}{{ end }}
        {{- with $except }}
        except: {{ toJson . }}
        {{- end }}
    {{- end }}
{{- end -}}

{{/* Egress to the registries of deployed images: to the given addresses, else to the internet. */}}
{{- define "berth.toImageRegistries" -}}
{{- $n := .Values.networkPolicy -}}
{{- $urls := list "https://registry" -}}
{{- range .Values.apps.allowedRegistries }}{{ $urls = append $urls (printf "https://%s" .) }}{{ end -}}
{{- if $n.imageRegistryCidrs -}}
{{- include "berth.toServer" (dict "values" dict "cidrs" $n.imageRegistryCidrs "address" (join "," $urls)) -}}
{{- else -}}
{{- $ports := list -}}
{{- range $urls }}{{ $ports = append $ports (include "berth.portOf" . | int) }}{{ end -}}
{{- include "berth.toInternet" (dict "ports" (uniq $ports) "except" $n.clientDocumentsExcept) -}}
{{- end -}}
{{- end -}}

{{- define "berth.portOf" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) -}}
{{- $port | default (get (dict "https" "443" "http" "80" "nats" "4222" "tls" "4222" "postgres" "5432") $url.scheme) | default "443" -}}
{{- end -}}
