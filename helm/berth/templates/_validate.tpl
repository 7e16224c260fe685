{{/* What a schema cannot express, or not in a plain sentence. */}}
{{- define "berth.validate" -}}
{{- $v := .Values -}}
{{- $mistakes := list -}}
{{- if not $v.image.repository }}{{ $mistakes = append $mistakes "image.repository: name the image of the platform. `npm run images` builds it and pushes it to your registry." }}{{ end -}}
{{- if not $v.builds.image.repository }}{{ $mistakes = append $mistakes "builds.image.repository: name the image of the builder. `npm run images` builds it and pushes it to your registry." }}{{ end -}}
{{- if not $v.publicUrl }}{{ $mistakes = append $mistakes "publicUrl: set the URL at which clients reach the gateway, such as https://berth.example.com." }}{{ end -}}
{{- if not $v.apps.domain }}{{ $mistakes = append $mistakes "apps.domain: set the domain for the addresses of apps, such as apps.example.com." }}{{ end -}}
{{- if not (or $v.owner.email) }}{{ $mistakes = append $mistakes "owner.email: set the e-mail address of the first owner." }}{{ end -}}
{{- $name := include "berth.fullname" . -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $name) }}{{ $mistakes = append $mistakes (printf "fullnameOverride: %s cannot begin the names of Services; set a name that begins with a letter, and has only a-z, 0-9 and -." $name) }}{{ end -}}
{{- /* A namespace has 63 characters, of which -env-<id> takes 31; a StatefulSet 52, of which -object-store takes 13. */ -}}
{{- if gt (len (include "berth.appsPrefix" .)) 32 }}{{ $mistakes = append $mistakes (printf "apps.namespacePrefix: the names of environments' namespaces begin with %s, which is too long; set at most 30 characters here, or a shorter fullnameOverride." (include "berth.appsPrefix" .)) }}{{ end -}}
{{- if and $v.objectStore.bundled (gt (len $name) 39) }}{{ $mistakes = append $mistakes (printf "fullnameOverride: %s is too long for the bundled object store; set at most 39 characters." $name) }}{{ end -}}
{{- $labels := include "berth.ownLabels" (dict "root" . "component" "any") | fromYaml -}}
{{- range $label, $_ := $v.commonLabels }}{{ if hasKey $labels $label }}{{ $mistakes = append $mistakes (printf "commonLabels: leave out %s, which the chart sets itself." $label) }}{{ end }}{{ end -}}
{{- $known := list -}}
{{- range include "berth.processes" . | fromYamlArray }}{{ $known = append $known .name }}{{ end -}}
{{- range $name, $_ := $v.processes -}}
{{- if not (has $name $known) }}{{ $mistakes = append $mistakes (printf "processes.%s: there is no such process; the processes are %s." $name (join ", " $known)) }}{{ end -}}
{{- end -}}
{{- range $group := list "apps" "builds" -}}
{{- if hasKey (get (get $v.placement $group) "nodeSelector" | default dict) "kubernetes.io/arch" }}{{ $mistakes = append $mistakes (printf "placement.%s.nodeSelector: set placement.arch instead, which applies to both builds and apps." $group) }}{{ end -}}
{{- end -}}
{{- range $plan, $given := $v.placement.plans -}}
{{- if hasKey (get $given "nodeSelector" | default dict) "kubernetes.io/arch" }}{{ $mistakes = append $mistakes (printf "placement.plans.%s.nodeSelector: set placement.arch instead, because every app must run on the architecture of builds." $plan) }}{{ end -}}
{{- end -}}
{{- $shared := list (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" (include "berth.environmentRole" .)) -}}
{{- if $v.builds.createNamespace }}{{ $shared = append $shared (lookup "v1" "Namespace" "" (include "berth.buildsNamespace" .)) }}{{ end -}}
{{- range compact $shared -}}
{{- $of := .metadata.annotations | default dict -}}
{{- $owner := printf "%s in namespace %s" (get $of "meta.helm.sh/release-name") (get $of "meta.helm.sh/release-namespace") -}}
{{- if and (hasKey $of "meta.helm.sh/release-name") (ne $owner (printf "%s in namespace %s" $.Release.Name $.Release.Namespace)) }}{{ $mistakes = append $mistakes (printf "fullnameOverride: %s belongs to the release %s. Each installation in a cluster needs its own name: give this release another name, or set fullnameOverride." .metadata.name $owner) }}{{ end -}}
{{- end -}}
{{- if and (not $v.database.bundled) (not $v.database.host) }}{{ $mistakes = append $mistakes "database.host: name your PostgreSQL, or set database.bundled." }}{{ end -}}
{{- if and (not $v.database.bundled) $v.database.admin.user (not $v.database.admin.existingSecret) }}{{ $mistakes = append $mistakes "database.admin.existingSecret: name the Secret with the administrator's password, or set database.admin.user to \"\" if roles and schemas already exist." }}{{ end -}}
{{- if and (not $v.database.bundled) (not $v.database.admin.user) (not $v.database.existingSecret) }}{{ $mistakes = append $mistakes "database.existingSecret: name the Secret with the passwords of the existing roles." }}{{ end -}}
{{- if and $v.database.bundled (not $v.database.admin.user) }}{{ $mistakes = append $mistakes "database.admin.user: the bundled PostgreSQL needs an administrator." }}{{ end -}}
{{- with $v.database.server.settings.max_connections }}{{ if and $v.database.bundled (lt (int .) (include "berth.connections" $ | int)) }}{{ $mistakes = append $mistakes (printf "database.server.settings.max_connections: must be at least %s, because the processes may open that many connections; or leave it out." (include "berth.connections" $)) }}{{ end }}{{ end -}}
{{- if and (not $v.nats.bundled) (not $v.nats.url) }}{{ $mistakes = append $mistakes "nats.url: name your NATS, or set nats.bundled." }}{{ end -}}
{{- if and (not $v.nats.bundled) $v.nats.user (not $v.nats.existingSecret) }}{{ $mistakes = append $mistakes "nats.existingSecret: name the Secret with the password of nats.user." }}{{ end -}}
{{- if and (ne (dig "mode" "disable" ($v.bundledTls | default dict)) "disable") (not (include "berth.tls" .)) }}{{ $mistakes = append $mistakes "bundledTls.mode: there is no bundled PostgreSQL or NATS; leave it at disable, and use database.parameters (sslmode=verify-full) and a nats.url that starts with tls://." }}{{ end -}}
{{- if and $v.smtp.from (not $v.smtp.existingSecret) }}{{ $mistakes = append $mistakes "smtp.existingSecret: name the Secret whose key `url` is the URL of the mail server, such as smtps://user:password@mail.example.com." }}{{ end -}}
{{- if and $v.smtp.existingSecret (not $v.smtp.from) }}{{ $mistakes = append $mistakes "smtp.from: set the sender of mails, such as berth@example.com." }}{{ end -}}
{{- if eq $v.oauth.provider "hydra" }}
{{- if not $v.oauth.hydra.adminUrl }}{{ $mistakes = append $mistakes "oauth.hydra.adminUrl: name the admin API of your Hydra, such as http://hydra-admin.hydra:4445, or set oauth.provider to embedded." }}{{ end -}}
{{- if not $v.oauth.hydra.publicUrl }}{{ $mistakes = append $mistakes "oauth.hydra.publicUrl: name the public API of your Hydra inside the cluster, such as http://hydra-public.hydra:4444, or set oauth.provider to embedded." }}{{ end -}}
{{- else if or $v.oauth.hydra.adminUrl $v.oauth.hydra.publicUrl }}{{ $mistakes = append $mistakes "oauth.provider: set it to hydra, or leave oauth.hydra empty." }}{{ end -}}
{{- $origin := trimSuffix "/" $v.publicUrl -}}
{{- with $v.oauth.resource }}{{ if not (or (eq . $origin) (hasPrefix (printf "%s/" $origin) .)) }}{{ $mistakes = append $mistakes "oauth.resource: must start with publicUrl, because clients look for its metadata there." }}{{ end }}{{ end -}}
{{- if and (has "none" $v.oauth.redirectHosts) (gt (len $v.oauth.redirectHosts) 1) }}{{ $mistakes = append $mistakes "oauth.redirectHosts: none cannot be combined with hosts; remove either." }}{{ end -}}
{{- if and $v.publicUrl (eq (trimSuffix "/" $v.oauth.hydra.publicUrl) $origin) }}{{ $mistakes = append $mistakes "oauth.hydra.publicUrl: this is the publicUrl of Berth; set the address of Hydra inside the cluster." }}{{ end -}}
{{- if and (not $v.objectStore.bundled) (not $v.objectStore.endpoint) }}{{ $mistakes = append $mistakes "objectStore.endpoint: name your S3, or set objectStore.bundled." }}{{ end -}}
{{- if and (not $v.objectStore.bundled) (not $v.objectStore.existingSecret) }}{{ $mistakes = append $mistakes "objectStore.existingSecret: name the Secret with access-key and secret-key of your S3." }}{{ end -}}
{{- if dig "archive" "endpoint" "" $v.apps.addons }}
{{- range $name := list "bucket" "existingSecret" }}{{ if not (get $v.apps.addons.archive $name) }}{{ $mistakes = append $mistakes (printf "apps.addons.archive.%s: required for archives; set it, or leave endpoint empty." $name) }}{{ end }}{{ end -}}
{{- if not (include "berth.archive" .) }}{{ $mistakes = append $mistakes "apps.addons.archive.endpoint: only servers of CloudNativePG have archives; set postgresEngine to cnpg or auto, or leave it empty." }}{{ end -}}
{{- end }}
{{- if and $v.logs.loki.existingSecret (not $v.logs.loki.url) }}{{ $mistakes = append $mistakes "logs.loki.url: name your Loki, such as http://loki.loki:3100, or leave existingSecret empty." }}{{ end -}}
{{- if and $v.networkPolicy.enabled $v.metrics.serviceMonitor.enabled (not $v.metrics.from) }}{{ $mistakes = append $mistakes "metrics.from: say who may scrape, because NetworkPolicies deny it otherwise, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]; or set metrics.serviceMonitor.enabled to false." }}{{ end -}}
{{- with $v.backup }}{{ if .enabled }}
{{- if not $v.database.bundled }}{{ $mistakes = append $mistakes "backup.enabled: you use your own database; back it up with its own tools, and leave this off." }}{{ end -}}
{{- range $name := list "endpoint" "bucket" "existingSecret" }}{{ if not (get $v.backup $name) }}{{ $mistakes = append $mistakes (printf "backup.%s: required for backups; set it, or set backup.enabled to false." $name) }}{{ end }}{{ end -}}
{{- end }}{{ end -}}
{{- if and (not $v.registry.bundled) (not $v.registry.push) }}{{ $mistakes = append $mistakes "registry.push: name your registry, or set registry.bundled." }}{{ end -}}
{{- if and $v.registry.pullSecret (or $v.registry.bundled (not $v.registry.existingSecret)) }}{{ $mistakes = append $mistakes "registry.pullSecret: can only be used with your own registry and registry.existingSecret; leave it empty." }}{{ end -}}
{{- range $value, $service := dict "service" $v.service "objectStore.service" $v.objectStore.service -}}
{{- if and $service.nodePort (eq $service.type "ClusterIP") }}{{ $mistakes = append $mistakes (printf "%s.nodePort: a Service of type ClusterIP has none; set %s.type to NodePort or LoadBalancer, or leave this out." $value $value) }}{{ end -}}
{{- end -}}
{{- $urls := dict "publicUrl" (list $v.publicUrl "service.type") -}}
{{- if and $v.objectStore.bundled (eq $v.objectStore.service.type "ClusterIP") }}{{ $_ := set $urls "objectStore.publicUrl" (list $v.objectStore.publicUrl "objectStore.service.type") }}{{ end -}}
{{- range $value, $url := $urls -}}
{{- $host := include "berth.hostOf" (first $url) -}}
{{- if and (first $url) (or $v.ingress.enabled $v.httpRoute.enabled) (or (regexMatch "^[0-9.]+$" $host) (not (regexMatch "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$" $host))) }}{{ $mistakes = append $mistakes (printf "%s: an ingress needs a host name in lower case, not an IP address. Otherwise set %s%s." $value (ternary "ingress.enabled and httpRoute.enabled to false, and set " "" (eq $value "publicUrl")) (last $url)) }}{{ end -}}
{{- end -}}
{{- if and $v.httpRoute.enabled (not $v.httpRoute.parentRefs) }}{{ $mistakes = append $mistakes "httpRoute.parentRefs: name the Gateway for the route." }}{{ end -}}
{{- with $v.apps }}
{{- if not (or .ingress.enabled .httpRoute.enabled) }}{{ $mistakes = append $mistakes "apps.ingress.enabled: apps need an Ingress or an HTTPRoute; set this or apps.httpRoute.enabled." }}{{ end -}}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) }}{{ $mistakes = append $mistakes "apps.httpRoute.parentRefs: name the Gateway for the routes of apps, and its namespace." }}{{ end -}}
{{- if not (or .ingressFromCidrs .httpRoute.namespaceLabels (not (kindIs "invalid" .ingressNamespaceLabels))) }}{{ $mistakes = append $mistakes "apps.ingressFromCidrs: give the addresses from which requests reach apps, or the labels of their namespace in apps.ingressNamespaceLabels. All other requests are blocked." }}{{ end -}}
{{- end -}}
{{- range include "berth.secretMistakes" $ | fromYamlArray }}{{ $mistakes = append $mistakes . }}{{ end -}}
{{- range include "berth.clusterMistakes" $ | fromYamlArray }}{{ $mistakes = append $mistakes . }}{{ end -}}
{{- if and $v.builds.userNamespaces $v.builds.seccompProfile }}{{ $mistakes = append $mistakes "builds.seccompProfile: builds in user namespaces use RuntimeDefault; leave this empty." }}{{ end -}}
{{- range include "berth.processes" . | fromYamlArray -}}
{{- $s := include "berth.settings" (dict "root" $ "process" .) | fromYaml -}}
{{- $process := .name -}}
{{- range $label, $_ := $s.podLabels }}{{ if hasKey $labels $label }}{{ $mistakes = append $mistakes (printf "processes.%s.podLabels: leave out %s, which the chart sets itself." $process $label) }}{{ end }}{{ end -}}
{{- if ge (int $s.drainSeconds) (sub (int $s.terminationGracePeriodSeconds) 14 | int) }}{{ $mistakes = append $mistakes (printf "processes.%s.terminationGracePeriodSeconds: must be more than drainSeconds plus 14 seconds, in which a process completes requests in progress." .name) }}{{ end -}}
{{- if and $s.autoscaling.enabled (gt (int $s.autoscaling.minReplicas) (int $s.autoscaling.maxReplicas)) }}{{ $mistakes = append $mistakes (printf "processes.%s.autoscaling: minReplicas is greater than maxReplicas." .name) }}{{ end -}}
{{- end -}}
{{- if dig "autoscaling" "enabled" false ($v.processes.deployer | default dict) }}{{ $mistakes = append $mistakes "processes.deployer.autoscaling: more pods do not share the deployer's load; set processes.deployer.replicas instead." }}{{ end -}}
{{- if $mistakes }}{{ fail (printf "\n\nThe values are not valid:\n  - %s\n" (join "\n  - " $mistakes)) }}{{ end -}}
{{- end -}}
