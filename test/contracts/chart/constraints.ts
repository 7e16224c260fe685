import type { V1Container, V1PodSpec } from "@kubernetes/client-node";

/** The members of OpenShift's SecurityContextConstraints that pods of Berth could be refused by. */
export type Constraints = {
  allowPrivilegeEscalation: boolean;
  allowedCapabilities: string[];
  requiredDropCapabilities: string[];
  runAsUser: { type: "MustRunAs" | "MustRunAsRange"; uid?: number };
  fsGroup: { type: "MustRunAs"; ranges?: { min: number; max: number }[] };
  seccompProfiles: string[];
  volumes: string[];
};

/** What OpenShift grants to every namespace; its range of users differs from one to another. */
export const RESTRICTED_V2: Constraints = {
  allowPrivilegeEscalation: false,
  allowedCapabilities: ["NET_BIND_SERVICE"],
  requiredDropCapabilities: ["ALL"],
  runAsUser: { type: "MustRunAsRange" },
  fsGroup: { type: "MustRunAs" },
  seccompProfiles: ["runtime/default"],
  volumes: [
    ...["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"],
    ...["persistentVolumeClaim", "projected", "secret"],
  ],
};

const SAFE_SYSCTLS = ["net.ipv4.ip_unprivileged_port_start"];

type Rule = (pod: V1PodSpec, container: V1Container, constraints: Constraints) => boolean;

/** Each rule by the member that a pod breaks. */
const RULES: Record<string, Rule> = {
  host: ({ hostNetwork, hostPID, hostIPC }, { ports }) =>
    !hostNetwork && !hostPID && !hostIPC && (ports ?? []).every(({ hostPort }) => !hostPort),
  volumes: ({ volumes }, _container, allowed) =>
    (volumes ?? []).every((volume) =>
      Object.keys(volume).every((key) => key === "name" || allowed.volumes.includes(key)),
    ),
  runAsNonRoot: (pod, { securityContext }) =>
    (securityContext?.runAsNonRoot ?? pod.securityContext?.runAsNonRoot) === true,
  runAsUser: (pod, { securityContext }, { runAsUser }) => {
    const given = securityContext?.runAsUser ?? pod.securityContext?.runAsUser;
    return given === undefined || given === runAsUser.uid;
  },
  fsGroup: ({ securityContext }, _container, { fsGroup }) => {
    const given = securityContext?.fsGroup;
    return given === undefined || (fsGroup.ranges ?? []).some(({ min, max }) => min <= given && given <= max);
  },
  seccompProfile: (pod, { securityContext }, { seccompProfiles }) => {
    const { type } = securityContext?.seccompProfile ?? pod.securityContext?.seccompProfile ?? {};
    const names: Record<string, string> = { RuntimeDefault: "runtime/default", Unconfined: "unconfined" };
    return seccompProfiles.includes(names[type ?? "Unconfined"] ?? "localhost");
  },
  appArmorProfile: (pod, { securityContext }) =>
    !pod.securityContext?.appArmorProfile && !securityContext?.appArmorProfile,
  sysctls: ({ securityContext }) =>
    (securityContext?.sysctls ?? []).every(({ name }) => SAFE_SYSCTLS.includes(name)),
  seLinuxOptions: (pod, { securityContext }) =>
    !pod.securityContext?.seLinuxOptions && !securityContext?.seLinuxOptions,
  privileged: (_pod, { securityContext }) => !securityContext?.privileged,
  allowPrivilegeEscalation: (_pod, { securityContext }, { allowPrivilegeEscalation }) =>
    allowPrivilegeEscalation || securityContext?.allowPrivilegeEscalation === false,
  capabilities: (_pod, { securityContext }, { allowedCapabilities, requiredDropCapabilities }) => {
    const { add = [], drop = [] } = securityContext?.capabilities ?? {};
    return (
      add.every((one) => allowedCapabilities.includes(one)) &&
      requiredDropCapabilities.every((one) => drop.includes(one))
    );
  },
};

/** Returns the names of the rules that a pod breaks. */
export function violationsOf(pod: V1PodSpec, constraints: Constraints): string[] {
  const containers = [...(pod.initContainers ?? []), ...pod.containers];
  return Object.entries(RULES)
    .filter(([, holds]) => !containers.every((container) => holds(pod, container, constraints)))
    .map(([name]) => name);
}
