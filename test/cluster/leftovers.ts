import type { KubernetesObject } from "@kubernetes/client-node";
import type { Kind, Kube } from "../../services/deployer/kube/client.ts";

/** Returns every object of a release that exists, as `Kind name`. */
export async function listLeftovers(kube: Kube, release: string): Promise<string[]> {
  const rbac = "rbac.authorization.k8s.io/v1";
  const admission = "admissionregistration.k8s.io/v1";
  const all: [apiVersion: string, ...kinds: string[]][] = [
    ["v1", "Pod", "Service", "Secret", "ConfigMap", "ServiceAccount", "PersistentVolumeClaim", "Namespace"],
    ["v1", "ResourceQuota", "LimitRange"],
    ["apps/v1", "Deployment", "StatefulSet", "ReplicaSet"],
    ["batch/v1", "Job", "CronJob"],
    ["policy/v1", "PodDisruptionBudget"],
    ["autoscaling/v2", "HorizontalPodAutoscaler"],
    ["policy/v1", "PodDisruptionBudget"],
    ["networking.k8s.io/v1", "NetworkPolicy", "Ingress"],
    [rbac, "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
    [admission, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
  ];
  const labels = `app.kubernetes.io/instance=${release}`;
  const lists = all.flatMap(([apiVersion, ...names]) =>
    names.map(async (one) => {
      const kind: Kind<KubernetesObject> = { apiVersion, kind: one, plural: "" };
      return (await kube.list(kind, { labels })).items.map(({ metadata }) => `${one} ${metadata!.name}`);
    }),
  );
  return (await Promise.all(lists)).flat();
}
