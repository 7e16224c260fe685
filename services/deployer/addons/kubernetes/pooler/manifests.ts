import { createHmac } from "node:crypto";
import type {
  V1Container,
  V1Deployment,
  V1NetworkPolicy,
  V1NetworkPolicyEgressRule,
  V1OwnerReference,
  V1Secret,
  V1Service,
} from "@kubernetes/client-node";
import type { Sent } from "../../../kube/client.ts";
import { label, labelsOf, nameOf, namespaceOf, selector } from "../../../kube/names.ts";
import { addonName } from "../../keys.ts";
import type { Addon, AddonAddress, AddonOutcome } from "../../port.ts";
import { GENERATION, PASSWORD } from "../server/annotations.ts";
import type { ManifestOptions } from "../server/manifests.ts";
import { FILES, passwordMark, programs } from "../server/server-scripts.ts";

export type PoolerManifestOptions = ManifestOptions & {
  /** Where it asks for the address of its server, as NetworkPolicies name it. */
  dns: V1NetworkPolicyEgressRule;
};

/** What a pooler is made from: its image, where its server is, and the object of that, with which it goes. */
export type PoolerParts = { image: string; server: AddonAddress; owner: V1OwnerReference };

export type PoolerObjects = {
  policy: Sent<V1NetworkPolicy>;
  secret: Sent<V1Secret>;
  service: Sent<V1Service>;
  deployment: Sent<V1Deployment>;
};

const { port: POSTGRES_PORT } = programs.postgres;
const PORT = 6432;
const MOST_CLIENTS = 500;
/** Each takes some of the server's memory, of which the smallest has 256 MiB, and few transactions run at the same moment. */
const SERVER_CONNECTIONS = 20;
/** How long a pod may take to serve before somebody has to look. */
const START_SECONDS = 120;
const RESOURCES = {
  requests: { cpu: "10m", memory: "16Mi", "ephemeral-storage": "16Mi" },
  limits: { cpu: "250m", memory: "64Mi", "ephemeral-storage": "64Mi" },
};

/** Returns the name of the objects of a pooler. No service has it: a name that users chose could be that of another service. */
export const poolerName = (serviceId: string) => `${nameOf(serviceId)}-pooler`;

/** Returns the selector of what belongs to the pooler of an addon. */
export const ofPooler = (serviceId: string) => selector({ [label("pooler")]: serviceId });

/** Returns where apps reach the pooler of an addon. */
export function poolerAddress(
  { serviceId, environmentId }: Pick<Addon, "serviceId" | "environmentId">,
  namespacePrefix: string,
): AddonAddress {
  const namespace = namespaceOf(namespacePrefix, environmentId);
  return { host: `${poolerName(serviceId)}.${namespace}.svc`, port: POSTGRES_PORT };
}

/**
 * Returns all objects of a pooler; pure. They do not have the label of the service, by which the addon's own objects and pods
 * are found. Each content of the Secret has a name of its own, so a pod cannot start with another than the one it was made for.
 */
export function poolerObjects(
  addon: Addon,
  { image, server, owner }: PoolerParts,
  password: string,
  options: PoolerManifestOptions,
): PoolerObjects {
  const { accountId, projectId, environmentId, serviceId, generation } = addon;
  const own = { [label("pooler")]: serviceId };
  const metadata = {
    name: poolerName(serviceId),
    namespace: namespaceOf(options.namespacePrefix, environmentId),
    labels: {
      ...labelsOf({ accountId, projectId, environmentId, kind: "pooler" }),
      ...own,
      "app.kubernetes.io/name": "pgbouncer",
    },
    ownerReferences: [owner],
  };
  const files = filesOf(serviceId, server, password);
  const secretName = `${metadata.name}-${markOf(files, password)}`;
  return {
    policy: {
      metadata,
      spec: {
        podSelector: { matchLabels: own },
        policyTypes: ["Ingress", "Egress"],
        ingress: [{ _from: [{ podSelector: {} }], ports: [{ port: PORT, protocol: "TCP" }] }],
        egress: [
          {
            to: [{ podSelector: { matchLabels: { [label("serviceId")]: serviceId } } }],
            ports: [{ port: POSTGRES_PORT, protocol: "TCP" }],
          },
          options.dns,
        ],
      },
    },
    secret: {
      metadata: { ...metadata, name: secretName },
      type: "Opaque",
      immutable: true,
      data: Object.fromEntries(
        Object.entries(files).map(([name, text]) => [name, Buffer.from(text).toString("base64")]),
      ),
    },
    service: {
      metadata,
      spec: {
        type: "ClusterIP",
        selector: own,
        ports: [{ name: "postgres", port: POSTGRES_PORT, targetPort: PORT, protocol: "TCP" }],
      },
    },
    deployment: {
      metadata: { ...metadata, annotations: { [GENERATION]: String(generation) } },
      spec: {
        replicas: 1,
        selector: { matchLabels: own },
        strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
        progressDeadlineSeconds: START_SECONDS,
        revisionHistoryLimit: 1,
        template: {
          metadata: {
            labels: metadata.labels,
            annotations: { [PASSWORD]: passwordMark(password) },
          },
          spec: podSpec(image, secretName, options),
        },
      },
    },
  };
}

function podSpec(image: string, secretName: string, { pullSecret, placement, user }: PoolerManifestOptions) {
  return {
    ...placement,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 10,
    ...(pullSecret !== undefined && { imagePullSecrets: [{ name: pullSecret }] }),
    securityContext: {
      runAsNonRoot: true,
      ...(user !== "any" && { runAsUser: user, runAsGroup: user, fsGroup: user }),
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [container(image)],
    volumes: [{ name: "files", secret: { secretName, defaultMode: 0o440 } }],
  };
}

function container(image: string): V1Container {
  return {
    name: "pooler",
    image,
    command: ["pgbouncer", `${FILES}/pgbouncer.ini`],
    ports: [{ name: "postgres", containerPort: PORT, protocol: "TCP" }],
    resources: RESOURCES,
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    readinessProbe: { tcpSocket: { port: PORT }, periodSeconds: 2, failureThreshold: 3 },
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [{ name: "files", mountPath: FILES, readOnly: true }],
  };
}

/**
 * Returns the files of PgBouncer. It checks clients by the verifier that the server has too, and logs in to the server by what
 * the login of a client shows: for that, the verifiers must be the same, and `[databases]` must name no user.
 */
function filesOf(serviceId: string, { host, port }: AddonAddress, password: string): Record<string, string> {
  const name = addonName(serviceId);
  const { verifier = "" } = programs.postgres.files(serviceId, password);
  return {
    "pgbouncer.ini": `[databases]
${name} = host=${host} port=${port}

[pgbouncer]
listen_addr = *
listen_port = ${PORT}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${FILES}/userlist.txt
server_tls_sslmode = prefer
pool_mode = transaction
max_client_conn = ${MOST_CLIENTS}
default_pool_size = ${SERVER_CONNECTIONS}
query_wait_timeout = 120
server_idle_timeout = 60
server_connect_timeout = 5
server_login_retry = 2
dns_nxdomain_ttl = 2
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
log_stats = 0
`,
    "userlist.txt": `"${name}" "${verifier}"\n`,
  };
}

/** Returns a mark of the files, which does not reveal what is in them. */
function markOf(files: Record<string, string>, password: string): string {
  return createHmac("sha256", password).update(JSON.stringify(files)).digest("hex").slice(0, 12);
}

/** Returns how far a pooler is towards what was applied; pure. No pod of before serves once it is ready. */
export function poolerOutcome({ metadata, status }: V1Deployment): AddonOutcome {
  const { observedGeneration = 0, replicas, updatedReplicas, availableReplicas, conditions } = status ?? {};
  const isCurrent = observedGeneration >= (metadata?.generation ?? 0);
  if (isCurrent && [replicas, updatedReplicas, availableReplicas].every((count) => count === 1))
    return { state: "ready" };
  const isLate = conditions?.some(
    ({ type, reason }) => type === "Progressing" && reason === "ProgressDeadlineExceeded",
  );
  return isCurrent && isLate
    ? { state: "failed", message: "The pooler does not start." }
    : { state: "waiting", message: "The pooler is starting." };
}
