import type { V1Container, V1Job, V1PodSpec, V1Secret, V1Volume } from "@kubernetes/client-node";
import { sizes } from "../../../../kit/sizes.ts";
import type { Sent } from "../../../kube/client.ts";
import { label, labelsOf, nameOf, namespaceOf } from "../../../kube/names.ts";
import { addonName } from "../../keys.ts";
import type { Addon } from "../../port.ts";
import { type ManifestOptions, type Ordinal, POD_NAME, passwdOf, podName } from "../server/manifests.ts";
import { DATA, programs } from "../server/server-scripts.ts";
import { COPY, type CopyRequest } from "./copy-request.ts";
import { proveDump, proveSnapshot, SCRATCH } from "./proof-scripts.ts";
import { archiveNow, checkSnapshot, dump, makePipe, restore } from "./scripts.ts";

/** A copy of the data of an addon that is to be made, or put in its place, or restored to the side. */
export type Copy = {
  addon: Addon;
  password: string;
  /** Of its server: its programs read and write the data. */
  serverImage: string;
  request: CopyRequest;
  /** Of a restore from the volume: its mark, and whose volume it is. */
  mark?: string;
  ordinal?: Ordinal;
  /** Of a restore to the side: how much local disk it may take, as much as the volume of its server has. */
  scratch?: string;
};

export type CopyOptions = Pick<ManifestOptions, "namespacePrefix" | "pullSecret" | "placement" | "user"> & {
  /** The image with the program of `main.ts`: the platform's own. */
  copyImage: string;
};

/** The container with the programs of the database, and the one that copies. */
export const DATABASE = "database";
export const COPIER = "copy";

/** What an app may have set for its role does not hold for copies. */
const OWN_SETTINGS = {
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "0",
  lock_timeout: "0",
  default_transaction_read_only: "off",
};

const DEADLINE_SECONDS = 6 * 3_600;
const KEPT_SECONDS = 600;
const limits = (memory: string, disk: string) => ({
  requests: { cpu: "50m", memory: "64Mi", "ephemeral-storage": "16Mi" },
  limits: { cpu: "500m", memory, "ephemeral-storage": disk },
});

/** What a Job of an addon is for: there is one of each at a time. */
export type CopyKind = "copy" | "proof";

export const kindOf = ({ scratch }: Copy): CopyKind => (scratch === undefined ? "copy" : "proof");

/** Returns the name of the Job that copies the data of an addon. */
export const copyName = (serviceId: string, kind: CopyKind = "copy") => `${nameOf(serviceId)}-${kind}`;

/** Returns the label of a copy's pods. They have none of a service: no Service leads to them. */
export const copyLabels = (serviceId: string, kind: CopyKind = "copy") => ({ [label(kind)]: serviceId });

/** Returns the Job of a copy; pure. Its pod begins when it has its Secret. */
export function copyJob(copy: Copy, options: CopyOptions): Sent<V1Job> {
  const { serviceId, accountId, projectId, environmentId } = copy.addon;
  const owner = labelsOf({ accountId, projectId, environmentId, kind: "copy" });
  const labels = { ...owner, ...copyLabels(serviceId, kindOf(copy)) };
  return {
    metadata: { name: copyName(serviceId, kindOf(copy)), namespace: spaceOf(copy, options), labels },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: DEADLINE_SECONDS,
      ttlSecondsAfterFinished: KEPT_SECONDS,
      template: { metadata: { labels }, spec: podSpec(copy, options) },
    },
  };
}

/** Returns the Secret with what a copy reads; pure. It is removed with the Job. */
export function copySecret(
  { addon, password, request, scratch }: Copy,
  options: Pick<CopyOptions, "user">,
  job: V1Job,
): Sent<V1Secret> {
  const { accountId, projectId, environmentId } = addon;
  const { name = "", namespace, uid = "" } = job.metadata ?? {};
  const toBase64 = (text: string) => Buffer.from(text).toString("base64");
  return {
    metadata: {
      name,
      namespace,
      labels: labelsOf({ accountId, projectId, environmentId }),
      ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name, uid, blockOwnerDeletion: false }],
    },
    type: "Opaque",
    data: {
      request: toBase64(JSON.stringify(request)),
      // What is restored to the side has no way to the addon.
      ...(scratch === undefined
        ? { password: toBase64(password) }
        : Object.fromEntries(
            Object.entries(passwdOf(options)).map(([file, text]) => [file, toBase64(text)]),
          )),
    },
  };
}

const spaceOf = ({ addon }: Copy, { namespacePrefix }: CopyOptions) =>
  namespaceOf(namespacePrefix, addon.environmentId);

function podSpec(copy: Copy, options: CopyOptions): V1PodSpec {
  const { pullSecret, placement, user } = options;
  const name = copyName(copy.addon.serviceId, kindOf(copy));
  const { mark, scratch, ordinal = 0 } = copy;
  const server = podName(copy.addon.serviceId, ordinal);
  const volumes: V1Volume[] = [
    { name: "request", secret: { secretName: name, items: [{ key: "request", path: "request.json" }] } },
    { name: "copy", emptyDir: { sizeLimit: "16Mi" } },
    { name: "part", emptyDir: { sizeLimit: "512Mi" } },
    { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
  ];
  const claimName = `data-${server}`;
  if (mark !== undefined) volumes.push({ name: "data", persistentVolumeClaim: { claimName } });
  if (scratch !== undefined) volumes.push({ name: "scratch", emptyDir: { sizeLimit: scratch } });
  if (scratch !== undefined && user !== "any")
    volumes.push({ name: "files", secret: { secretName: name, items: [{ key: "passwd", path: "passwd" }] } });
  return {
    ...placement,
    // Where the volume is, which its server uses as well.
    ...(mark !== undefined && { affinity: beside(server) }),
    restartPolicy: "Never",
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 1,
    ...(pullSecret !== undefined && { imagePullSecrets: [{ name: pullSecret }] }),
    securityContext: {
      runAsNonRoot: true,
      ...(user !== "any" && { runAsUser: user, runAsGroup: user, fsGroup: user }),
      fsGroupChangePolicy: "OnRootMismatch",
      seccompProfile: { type: "RuntimeDefault" },
    },
    ...containers(copy, options),
    volumes,
  };
}

const beside = (server: string) => ({
  podAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: [
      {
        labelSelector: { matchLabels: { [POD_NAME]: server } },
        topologyKey: "kubernetes.io/hostname",
      },
    ],
  },
});

/** With a pipe both run at once; a file is received before it is checked. */
function containers(copy: Copy, options: CopyOptions): Pick<V1PodSpec, "initContainers" | "containers"> {
  const { request, mark, addon, scratch } = copy;
  if (scratch !== undefined) return toTheSide(copy, options);
  if (mark !== undefined)
    return {
      initContainers: [copier(copy, options)],
      containers: [database(copy, checkSnapshot(mark), ["data"])],
    };
  if (addon.type === "redis") return { containers: [copier(copy, options)] };
  if ("archive" in request) return { containers: [database(copy, archiveNow, [])] };
  return {
    initContainers: [{ ...database(copy, makePipe, ["copy"]), name: "pipe", env: [] }],
    containers: [
      copier(copy, options),
      database(copy, "send" in request ? dump : restore(request), ["copy"]),
    ],
  };
}

/** A dump is read as it comes, an RDB file once it is there. Neither container has a login. */
function toTheSide(copy: Copy, options: CopyOptions): Pick<V1PodSpec, "initContainers" | "containers"> {
  const { addon, scratch } = copy;
  const { serviceId, type, size } = addon;
  const isDump = type === "postgres";
  const prover: V1Container = {
    ...database(copy, isDump ? proveDump(addonName(serviceId)) : proveSnapshot, ["copy", "scratch"]),
    env: [{ name: "LC_ALL", value: "C" }],
    // Redis has all of it in memory, as its server has.
    resources: limits(isDump ? "512Mi" : `${sizes[size].memory + 64}Mi`, scratch!),
  };
  if (options.user !== "any")
    prover.volumeMounts!.push({ name: "files", mountPath: "/etc/passwd", subPath: "passwd", readOnly: true });
  if (!isDump) return { initContainers: [copier(copy, options)], containers: [prover] };
  const pipe = { ...database(copy, makePipe, ["copy"]), name: "pipe", env: [] };
  return { initContainers: [pipe], containers: [copier(copy, options), prover] };
}

const security = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

const MOUNTS: Record<string, string> = {
  request: "/request",
  copy: COPY.shared,
  part: "/part",
  tmp: "/tmp",
  data: DATA,
  scratch: SCRATCH,
};
const mounts = (names: string[]) =>
  names.map((name) => ({ name, mountPath: MOUNTS[name]!, ...(name === "request" && { readOnly: true }) }));

function copier({ addon, mark, scratch }: Copy, { copyImage }: CopyOptions): V1Container {
  const isSnapshot = addon.type === "redis" && mark === undefined && scratch === undefined;
  const place = mark !== undefined ? ["data"] : scratch !== undefined ? ["scratch"] : [];
  return {
    name: COPIER,
    image: copyImage,
    command: ["node", "/app/services/deployer/addons/kubernetes/backups/main.ts"],
    env: isSnapshot ? [passwordAs("REDIS_PASSWORD", addon)] : [],
    resources: limits("256Mi", "640Mi"),
    securityContext: security,
    volumeMounts: mounts(["request", "copy", "part", "tmp", ...place]),
  };
}

function database({ addon, serverImage }: Copy, script: string, shared: string[]): V1Container {
  const name = addonName(addon.serviceId);
  const login = {
    PGHOST: addon.name,
    PGPORT: String(programs.postgres.port),
    PGUSER: name,
    PGDATABASE: name,
    PGCONNECT_TIMEOUT: "10",
    PGOPTIONS: Object.entries(OWN_SETTINGS)
      .map(([setting, value]) => `-c ${setting}=${value}`)
      .join(" "),
  };
  const env = [
    // English, whatever the image speaks: some messages are recognised.
    { name: "LC_ALL", value: "C" },
    ...Object.entries(login).map(([key, value]) => ({ name: key, value })),
    passwordAs("PGPASSWORD", addon),
  ];
  return {
    name: DATABASE,
    image: serverImage,
    command: ["/bin/sh", "-c", script],
    env: addon.type === "postgres" ? env : [],
    resources: limits("512Mi", "128Mi"),
    securityContext: security,
    volumeMounts: mounts([...shared, "tmp"]),
  };
}

const passwordAs = (name: string, { serviceId }: Addon) => ({
  name,
  valueFrom: { secretKeyRef: { name: copyName(serviceId), key: "password" } },
});
