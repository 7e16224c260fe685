import { homedir } from "node:os";
import { join } from "node:path";

/** Addresses of the cluster. They are fixed: a machine has one cluster. */
export const network = {
  node: "10.99.0.1",
  host: "10.99.0.254",
  link: "10.99.0.0/24",
  services: "10.96.0.0/16",
  apiService: "10.96.0.1",
  pods: "10.244.0.0/16",
} as const;

/** The two ends of the cable between this machine and the node. */
export const cable = { host: "berth-host", node: "berth-node" } as const;

/** One registry with two names: the address is for pushing, the name for pulling (in pod specs). */
export const registry = { push: `${network.node}:5000`, pull: "registry.local:5000" } as const;

/**
 * Whether the run has a builder image for buildpacks, and their tests: to build the lifecycle takes longer than these
 * tests, and nothing else needs it.
 */
export const withBuildpacks = process.env.BERTH_CLUSTER_BUILDPACKS === "on";

/**
 * Whether the run has cert-manager and a certificate authority (Pebble), and their tests: both take longer to build than
 * what they show.
 */
export const withAcme = process.env.BERTH_CLUSTER_ACME === "on";

/**
 * Whether the run has the operator CloudNativePG with its plugin for backups, and their tests: both take minutes to build,
 * and no other test needs them.
 */
export const withCloudNativePg = ["on", "upgrade"].includes(process.env.BERTH_CLUSTER_CNPG ?? "");

/** Whether it also has the release of that operator before, and the tests of its upgrade: one more program to build. */
export const withEarlierCloudNativePg = process.env.BERTH_CLUSTER_CNPG === "upgrade";

/** Where the run with a certificate authority asks for the records of domains, on this machine. */
export const ACME_DNS_PORT = 5354;

/** An S3 server for tests; its keys are no secret. */
export const objectStore = {
  endpoint: `http://${network.node}:7070`,
  accessKey: "berth-test",
  secretKey: "berth-test-secret",
} as const;

export const nodeName = "node1";
export const cgroup = "berth-cluster";

/** Holds the lock of the machine's one cluster, whichever user's files it uses. */
export const runtimeDir = "/run/berth-cluster";

/** Where programs, images and the node's files are kept, outside the repository; images are reused by later runs. */
export const home = process.env.BERTH_CLUSTER_DIR ?? join(homedir(), ".cache", "berth", "cluster");

export const folders = {
  /** The programs built by Go. */
  programs: join(home, "bin"),
  /** Archives of base systems, and what is added to them. */
  images: join(home, "images"),
  /** buildah's store. */
  buildah: join(home, "buildah"),
  /** The node: logs, certificates, etcd, kubelet, containerd, registry. */
  node: join(home, "node"),
} as const;

export const kubeconfig = join(folders.node, "kubeconfig", "admin");
export const logFile = (name: string) => join(folders.node, "log", `${name}.log`);
