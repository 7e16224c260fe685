import type {
  KubernetesObject,
  V1ConfigMap,
  V1Deployment,
  V1Ingress,
  V1Job,
  V1LimitRange,
  V1Namespace,
  V1NetworkPolicy,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodDisruptionBudget,
  V1ReplicaSet,
  V1ResourceQuota,
  V1RoleBinding,
  V1Secret,
  V1Service,
  V1StatefulSet,
  V2HorizontalPodAutoscaler,
} from "@kubernetes/client-node";
import type { Kind } from "./client.ts";

const define = <T extends KubernetesObject>(apiVersion: string, kind: string, plural: string): Kind<T> => ({
  apiVersion,
  kind,
  plural,
});

/** A route of the Gateway API, as far as Berth sets it. */
export type HTTPRouteSpec = {
  parentRefs: GatewayRef[];
  hostnames: string[];
  rules: {
    backendRefs?: { name: string; port: number }[];
    filters?: { type: "RequestRedirect"; requestRedirect: { hostname: string; statusCode: number } }[];
    timeouts?: Record<string, string>;
  }[];
};

export type HTTPRouteObject = KubernetesObject & { spec?: HTTPRouteSpec };

/** Which Gateway carries a route, and by which of its listeners. */
export type GatewayRef = { name: string; namespace: string; sectionName?: string; port?: number };

/** A server of CloudNativePG with its standbys, as far as Berth sets it and reads it. */
export type PostgresClusterObject = KubernetesObject & {
  spec?: {
    instances: number;
    imageName: string;
    storage: { size: string; storageClass?: string; resizeInUseVolumes: boolean };
    [other: string]: unknown;
  };
  status?: {
    phase?: string;
    phaseReason?: string;
    currentPrimary?: string;
    targetPrimary?: string;
    conditions?: { type: string; status: string; message?: string }[];
    managedRolesStatus?: {
      passwordStatus?: Record<string, { resourceVersion?: string }>;
      cannotReconcile?: Record<string, string[]>;
    };
  };
};

/** What a pod uses, as metrics-server serves it. */
export type PodMetricsObject = KubernetesObject & {
  containers?: { name: string; usage: { cpu: string; memory: string } }[];
};

/** The kinds that Berth creates or watches. */
export const Namespace = define<V1Namespace>("v1", "Namespace", "namespaces");
export const Pod = define<V1Pod>("v1", "Pod", "pods");
export const Secret = define<V1Secret>("v1", "Secret", "secrets");
export const Service = define<V1Service>("v1", "Service", "services");
export const ConfigMap = define<V1ConfigMap>("v1", "ConfigMap", "configmaps");
export const ResourceQuota = define<V1ResourceQuota>("v1", "ResourceQuota", "resourcequotas");
export const LimitRange = define<V1LimitRange>("v1", "LimitRange", "limitranges");
export const PersistentVolumeClaim = define<V1PersistentVolumeClaim>(
  "v1",
  "PersistentVolumeClaim",
  "persistentvolumeclaims",
);
export const Deployment = define<V1Deployment>("apps/v1", "Deployment", "deployments");
export const ReplicaSet = define<V1ReplicaSet>("apps/v1", "ReplicaSet", "replicasets");
export const StatefulSet = define<V1StatefulSet>("apps/v1", "StatefulSet", "statefulsets");
export const Job = define<V1Job>("batch/v1", "Job", "jobs");
export const Ingress = define<V1Ingress>("networking.k8s.io/v1", "Ingress", "ingresses");
/** Of the Gateway API, which is no part of Kubernetes. */
export const HTTPRoute: Kind<HTTPRouteObject> = {
  ...define("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes"),
  optional: true,
};
/** What cert-manager says of a certificate, as far as Berth reads it. */
export type CertificateObject = KubernetesObject & {
  status?: { conditions?: { type: string; status: string; message?: string }[] };
};

/** Of cert-manager, which a cluster need not have. */
export const Certificate: Kind<CertificateObject> = {
  ...define("cert-manager.io/v1", "Certificate", "certificates"),
  optional: true,
};
/** Of metrics-server, which is no part of Kubernetes. */
export const PodMetrics: Kind<PodMetricsObject> = {
  ...define("metrics.k8s.io/v1beta1", "PodMetrics", "pods"),
  optional: true,
};
/** Of CloudNativePG, which a cluster need not have. */
export const PostgresCluster: Kind<PostgresClusterObject> = {
  ...define("postgresql.cnpg.io/v1", "Cluster", "clusters"),
  optional: true,
};
/** Takes base backups of such a server at its times. */
export const ScheduledBackup: Kind<KubernetesObject> = {
  ...define("postgresql.cnpg.io/v1", "ScheduledBackup", "scheduledbackups"),
  optional: true,
};
/** Of the Barman Cloud plugin of CloudNativePG: where archives are, as far as Berth sets it and reads it. */
export type ArchiveObject = KubernetesObject & {
  spec?: { [other: string]: unknown };
  status?: { serverRecoveryWindow?: Record<string, { firstRecoverabilityPoint?: string }> };
};
export const ObjectStore: Kind<ArchiveObject> = {
  ...define("barmancloud.cnpg.io/v1", "ObjectStore", "objectstores"),
  optional: true,
};
export const HorizontalPodAutoscaler = define<V2HorizontalPodAutoscaler>(
  "autoscaling/v2",
  "HorizontalPodAutoscaler",
  "horizontalpodautoscalers",
);
export const PodDisruptionBudget = define<V1PodDisruptionBudget>(
  "policy/v1",
  "PodDisruptionBudget",
  "poddisruptionbudgets",
);
export const NetworkPolicy = define<V1NetworkPolicy>(
  "networking.k8s.io/v1",
  "NetworkPolicy",
  "networkpolicies",
);
export const RoleBinding = define<V1RoleBinding>(
  "rbac.authorization.k8s.io/v1",
  "RoleBinding",
  "rolebindings",
);
