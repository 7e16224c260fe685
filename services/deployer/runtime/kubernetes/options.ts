import type { V1NetworkPolicyEgressRule, V1NetworkPolicyPeer } from "@kubernetes/client-node";
import type { Kube } from "../../kube/client.ts";
import type { GatewayRef } from "../../kube/kinds.ts";
import type { Placement } from "../../kube/pods/placement.ts";
import type { WatchScope } from "../../kube/watch/watches.ts";
import type { Logger } from "../../shared/logger.ts";
import type { EnvironmentPlans } from "../../terms/environment-plan.ts";
import type { LokiOptions } from "./logs/loki.ts";

/** How releases run on this cluster. */
export type KubernetesRuntimeOptions = {
  kube: Kube;
  log: Logger;
  /** An environment's namespace is `<prefix>-<environment id>`. */
  namespacePrefix: string;
  /** Which watches it has the right to: of the whole cluster, or only of the namespaces of environments. */
  watch: WatchScope;
  /** Namespace of this installation in which host names are claimed. */
  claimsNamespace: string;
  /** ClusterRole that this process binds to itself in each namespace it creates; omitted where it needs none. */
  environmentRole?: string;
  /** This process's own account. */
  serviceAccount?: { namespace: string; name: string };
  apps: AppOptions;
  ingress: IngressOptions;
  /** Omitted where the cluster need not know the Gateway API. */
  httpRoute?: HttpRouteOptions;
  /** Of the host names of users; without them no certificates are issued. */
  hosts?: HostOptions;
  network: NetworkOptions;
  /** Returns the content of the Docker config file with which nodes pull an account's images; secret. */
  registryAuth?: (accountId: string) => string;
  /** Hard limits of an environment, as a ResourceQuota names them. */
  quota: Record<string, string>;
  plansOf: EnvironmentPlans;
  /** Keeps what pods wrote, longer than their nodes. */
  loki?: LokiOptions;
  /** Of a Prometheus that scrapes the ingress controller and the kubelets. */
  prometheusUrl?: string;
  /** How often what is in the cluster is compared with what was applied. */
  compareMs: number;
};

export type AppOptions = {
  /** Apps answer at `<service>-<environment>-<project>.<domain>`. */
  domain: string;
  scheme: "http" | "https";
  /** Omitted where it is the scheme's default. */
  port?: number;
  /** How long a terminating replica still serves, until no more requests reach it. */
  drainSeconds: number;
  /** From SIGTERM to SIGKILL. */
  graceSeconds: number;
  /** How long a release may take to become available before its status says that it is late. */
  rolloutDeadlineMs: number;
  /** The share of a size that is reserved on a node; the size itself is the limit. */
  reserved: { cpu: number; memory: number; storage: number };
  /** Where the apps of a plan may run, by the name that billing has for it; any node unless given. */
  placementOf?: (tier: string | undefined) => Placement;
};

/** By which objects apps are reached from outside. Both may be enabled; what is not enabled is removed. */
export type DoorOptions = Pick<KubernetesRuntimeOptions, "ingress" | "httpRoute">;

export type IngressOptions = {
  enabled: boolean;
  className?: string;
  annotations: Record<string, string>;
  /** The certificate's Secret; `{service}` stands for the service's name. The controller's default unless given. */
  tlsSecret?: string;
};

export type HttpRouteOptions = {
  enabled: boolean;
  parentRefs: GatewayRef[];
  annotations: Record<string, string>;
  /** Of each rule, as the Gateway API names them; the Gateway's own unless given. */
  timeouts: Record<string, string>;
};

export type HostOptions = {
  /** The ClusterIssuer of cert-manager for their certificates. */
  issuer?: string;
  /** Of an Ingress that redirects; `{target}` stands for the host name. */
  redirectAnnotations: Record<string, string>;
};

export type NetworkOptions = {
  /** Labels of the namespaces from which requests come: the ingress controller's, the Gateway's. */
  ingressNamespaceLabels: Record<string, string>[];
  /** Where requests come from, if the ingress controller is not a pod. */
  ingressFromCidrs: string[];
  /** Networks that apps may not reach, the cluster's own among them. */
  egressExceptCidrs: string[];
  /** Whether the network knows ranges of ports in policies; otherwise no port of the internet is closed. */
  portRanges: boolean;
  /** Who may scrape the pods of apps that ask for it. */
  metricsPeers: V1NetworkPolicyPeer[];
  /** TCP ports that apps may not reach outside their environment, besides that of DNS. */
  closedPorts: number[];
  /** Where DNS is asked, and where its pods answer if those are other ports. */
  dnsPorts: number[];
  /** The cluster's DNS. */
  dnsPeers: V1NetworkPolicyPeer[];
  /** The object store, for the pods that copy the data of addons; none where there are no such pods. */
  copiesTo?: V1NetworkPolicyEgressRule[];
};
