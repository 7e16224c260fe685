{{- define "berth.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of every object's name, short enough for the longest suffix. */}}
{{- define "berth.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "berth.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "berth.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "berth.selector" -}}
app.kubernetes.io/name: {{ include "berth.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Labels of an object: (dict "root" $ "component" "…"). */}}
{{- define "berth.labels" -}}
{{ include "berth.ownLabels" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Those that the chart sets itself. */}}
{{- define "berth.ownLabels" -}}
{{ include "berth.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Labels of a pod: no version, so that a chart that changes nothing rolls nothing. */}}
{{- define "berth.podLabels" -}}
{{ include "berth.selector" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An image of the values: (dict "image" … "tag" "default"). */}}
{{- define "berth.image" -}}
{{- $tag := .image.tag | default .tag -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ $tag }}
{{- end -}}
{{- end -}}

{{- define "berth.platformImage" -}}
{{- include "berth.image" (dict "image" .Values.image "tag" .Chart.AppVersion) -}}
{{- end -}}

{{- define "berth.buildsNamespace" -}}
{{- .Values.builds.namespace | default (printf "%s-builds" (include "berth.fullname" .)) -}}
{{- end -}}

{{- define "berth.appsPrefix" -}}
{{- .Values.apps.namespacePrefix | default (include "berth.fullname" .) -}}
{{- end -}}

{{- define "berth.deployerAccount" -}}
{{ include "berth.fullname" . }}-deployer
{{- end -}}

{{- define "berth.environmentRole" -}}
{{ include "berth.fullname" . }}-environment
{{- end -}}

{{/* Host name of a URL, without port. */}}
{{- define "berth.hostOf" -}}
{{- (urlParse .).host | regexFind "^[^:]*" -}}
{{- end -}}
