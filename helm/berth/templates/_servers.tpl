{{/* What the pods of all bundled servers have in common: (dict "root" $ "server" values). */}}
{{- define "berth.serverBasics" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext: {{ include "berth.podSecurity" (dict "user" .server.runAsUser) | nindent 2 }}
{{- include "berth.placement" (dict "root" .root "own" .server) }}
{{- end -}}

{{/* Without storage the data is lost with the pod. */}}
{{- define "berth.dataVolume" -}}
{{- if not .storage.enabled -}}
- name: data
  emptyDir: {}
{{- end -}}
{{- end -}}

{{- define "berth.dataClaim" -}}
{{- with .server.storage }}{{ if .enabled -}}
persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}
volumeClaimTemplates:
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: data
      labels: {{ include "berth.selector" $ | nindent 8 }}
    spec:
      accessModes: [ReadWriteOnce]
      {{- with .className }}
      storageClassName: {{ . | quote }}
      {{- end }}
      resources: {requests: {storage: {{ .size }}}}
{{- end }}{{ end -}}
{{- end -}}
