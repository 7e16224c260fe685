{{/*
A list of sentences about objects that the values name but the cluster does not have. Checked only at the installation and
when the settings of ingress and routes change, so that a working installation is not disturbed. Without a cluster (helm
template) nothing can be checked.
*/}}
{{- define "berth.clusterMistakes" -}}
{{- $a := .Values.apps -}}
{{- $mistakes := list -}}
{{- $settings := list "INGRESS" "INGRESS_CLASS" "INGRESS_NAMESPACE_LABELS" "HTTP_ROUTES" "HTTP_ROUTE_PARENTS" "GATEWAY_NAMESPACE_LABELS" -}}
{{- $now := dict -}}
{{- $before := dict -}}
{{- $config := lookup "v1" "ConfigMap" .Release.Namespace (printf "%s-deployer" (include "berth.fullname" .)) -}}
{{- range $settings -}}
{{- $_ := set $now . (get (include "berth.deployerConfig" $ | fromYaml) .) -}}
{{- $_ := set $before . (get (get $config "data" | default dict) .) -}}
{{- end -}}
{{- $namespaces := list -}}
{{- if ne (toJson $now) (toJson $before) }}{{ $namespaces = (lookup "v1" "Namespace" "" "").items | default list }}{{ end -}}
{{- if $namespaces -}}
{{- $asked := dict -}}
{{- if $a.ingress.enabled }}{{ $_ := set $asked "ingressNamespaceLabels" $a.ingressNamespaceLabels }}{{ end -}}
{{- if $a.httpRoute.enabled }}{{ $_ := set $asked "httpRoute.namespaceLabels" $a.httpRoute.namespaceLabels }}{{ end -}}
{{- range $name, $labels := $asked -}}
{{- $found := or (not $labels) $a.ingressFromCidrs -}}
{{- range $namespaces -}}
{{- $own := .metadata.labels | default dict -}}
{{- $has := true -}}
{{- range $label, $value := $labels }}{{ if or (not (hasKey $own $label)) (ne (get $own $label) $value) }}{{ $has = false }}{{ end }}{{ end -}}
{{- if $has }}{{ $found = true }}{{ end -}}
{{- end -}}
{{- if not $found }}{{ $mistakes = append $mistakes (printf "apps.%s: no namespace of this cluster has the labels %s, so no request would reach apps. Set the labels of the namespace where your controller's pods run, or its addresses in apps.ingressFromCidrs." $name (toJson $labels)) }}{{ end -}}
{{- end -}}
{{- range $name, $i := dict "apps.ingress" $a.ingress "ingress" $.Values.ingress -}}
{{- if and $i.enabled $i.className -}}
{{- if not (lookup "networking.k8s.io/v1" "IngressClass" "" $i.className) }}{{ $mistakes = append $mistakes (printf "%s.className: this cluster has no IngressClass %s; `kubectl get ingressclass` lists the existing ones." $name $i.className) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $a.httpRoute.enabled -}}
{{- if not ($.Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1/HTTPRoute") -}}
{{- $mistakes = append $mistakes "apps.httpRoute.enabled: this cluster does not have the Gateway API; install it, or set apps.ingress.enabled instead." -}}
{{- else -}}
{{- range $a.httpRoute.parentRefs -}}
{{- if not (lookup "gateway.networking.k8s.io/v1" "Gateway" .namespace .name) }}{{ $mistakes = append $mistakes (printf "apps.httpRoute.parentRefs: there is no Gateway %s in the namespace %s." .name .namespace) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $mistakes -}}
{{- end -}}
