import type { Kube } from "../../kube/client.ts";
import type { Logger } from "../port.ts";

/** How releases run on this cluster. */
export type KubernetesRuntimeOptions = {
  kube: Kube;
  log: Logger;
  /** An environment's namespace is `<prefix>-<environment id>`. */
  namespacePrefix: string;
  /** Namespace of this installation in which host names are claimed. */
  claimsNamespace: string;
  /** ClusterRole that this process binds to itself in each namespace it makes; without it, it needs none. */
  environmentRole?: string;
  /** This process's own account. */
  serviceAccount?: { namespace: string; name: string };
  apps: AppOptions;
  ingress: IngressOptions;
  network: NetworkOptions;
  /** A docker config file's content, by which nodes pull images; secret. */
  registryAuth?: string;
  /** Hard limits of an environment, as a ResourceQuota names them. */
  quota: Record<string, string>;
  /** How often what is in the cluster is compared with what was applied. */
  compareMs: number;
};

export type AppOptions = {
  /** Apps answer at `<service>-<environment>-<project>.<domain>`. */
  domain: string;
  scheme: "http" | "https";
  /** Where it is not the scheme's own. */
  port?: number;
  /** How long a replica goes on serving while requests stop reaching it. */
  drainSeconds: number;
  /** From SIGTERM to SIGKILL. */
  graceSeconds: number;
  /** A release that is not available by then is late. */
  rolloutDeadlineMs: number;
  /** The part of a size that is reserved on a node; the size itself is the limit. */
  reserved: { cpu: number; memory: number };
};

export type IngressOptions = {
  className?: string;
  annotations: Record<string, string>;
  /** The certificate's Secret; `{service}` stands for the service's name. Without one, the controller's own. */
  tlsSecret?: string;
};

export type NetworkOptions = {
  /** Labels of the ingress controller's namespace. */
  ingressNamespaceLabels?: Record<string, string>;
  /** Where requests come from when the ingress controller is not a pod. */
  ingressFromCidrs: string[];
  /** What apps may not reach outside their environment: the cluster's own networks among them. */
  egressExceptCidrs: string[];
};
