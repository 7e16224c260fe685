import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pushBases } from "../images/base-images.ts";
import { caBundle, pushPlatform } from "../images/platform-images.ts";
import { pushTestImages } from "../images/test-images.ts";
import { programLinks } from "../node/node-files.ts";
import { folders, kubeconfig, network, objectStore, registry } from "../settings.ts";

/** Describes the cluster to the tests that run on it; BERTH_CLUSTER_RUN names a JSON file with it. */
export type RunSettings = {
  kubeconfig: string;
  /** Paths of these programs. */
  helm: string;
  kubectl: string;
  /** Where images are pushed to, and the name by which nodes pull. The registry has no TLS. */
  registry: { push: string; pull: string };
  /** `name:tag` of each image in that registry. */
  images: Record<Image, string> & Partial<Record<Optional, string>>;
  ingress: { address: string; className: string; namespace: string };
  objectStore: { endpoint: string; accessKey: string; secretKey: string };
  /** The address at which pods reach this machine. */
  host: string;
  /** A file of certificates that builds must trust to reach package registries. */
  ca?: string;
};

type Image =
  | ("pause" | "base" | "node-slim" | "node" | "platform" | "next" | "builder")
  | (
      | "postgres"
      | "postgres-15"
      | "redis"
      | "valkey"
      | "pgbouncer"
      | "python"
      | "registry"
      | "nats"
      | "versitygw"
    );
type Optional =
  | ("buildpacks" | "acmesolver")
  | ("cloudnative-pg" | "cloudnative-pg-earlier" | "plugin-barman-cloud" | "plugin-barman-cloud-sidecar");

/** Pushes every image that tests need, writes the settings to a file and returns its name, and the images. */
export async function prepareRun(): Promise<{ file: string; images: RunSettings["images"] }> {
  const bases = await pushBases();
  const images = { ...bases, ...(await pushPlatform(bases)), ...(await pushTestImages(bases)) };
  const settings: RunSettings = {
    kubeconfig,
    helm: join(programLinks, "helm"),
    kubectl: join(programLinks, "kubectl"),
    registry,
    images,
    ingress: { address: network.node, className: "proxy", namespace: "ingress" },
    objectStore,
    host: network.host,
    ca: caBundle(),
  };
  const file = join(folders.node, "run.json");
  await writeFile(file, `${JSON.stringify(settings, null, 2)}\n`, { mode: 0o600 });
  return { file, images };
}
