import { randomBytes } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { pack } from "tar-stream";
import { Job, Pod } from "../../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../../services/deployer/kube/names.ts";
import type { Door } from "../../support/door.ts";
import { median } from "../row.ts";
import { type ClusterBench, type Deployment, server, timeUntil } from "./cluster.ts";

const ROUNDS = 3;

/**
 * An archive with a Dockerfile from its POST until its image is built and pushed, compared with a pod of the same
 * image, permissions and volumes in which a shell unpacks, builds and pushes the same.
 */
export const build: ClusterBench = {
  names: ["archive-build"],
  run: async ({ door, kube, settings, call }) => {
    const { E } = await door.environment();
    const Dockerfile = `FROM ${settings.registry.push}/${settings.images["node-slim"]}\nWORKDIR /app\nCOPY . .\nRUN node --version > version.txt\nCMD ["node", "server.js"]\n`;
    const ratios: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const name = `build-${randomBytes(4).toString("hex")}`;
      const made = await door.must<{ id: string }>("POST", `${E}/services`, { name, type: "web" });
      const S = `${E}/services/${name}`;
      const files = { Dockerfile, "server.js": server, "round.txt": randomBytes(8).toString("hex") };
      const archive = await archiveOf(files);
      const archiveRef = await upload(door, S, archive);
      const posted = performance.now();
      await door.must("POST", `${S}/deploy-from-archive`, { archiveRef });
      const labels = selector({ [label("service")]: made.id, [label("kind")]: "build" });
      const job = await waitFor(async () => (await kube.list(Job, { labels })).items[0]);
      const pod = await waitFor(async () => (await kube.list(Pod, { labels })).items[0]);
      await timeUntil(async () => {
        const found = await door.must<Deployment>("GET", `${S}/deployments/1`);
        if (found.status === "failed") throw new Error(JSON.stringify(found.errors));
        return found.status === "built" || found.status === "applied";
      });
      const ours = performance.now() - posted;
      await timeUntil(
        async () => (await door.must<Deployment>("GET", `${S}/deployments/1`)).healthyAt !== undefined,
      );
      await door.call("DELETE", S, { confirmImpact: true });

      // The archive is in the cluster before the clock starts, as it is in the object store for Berth's build.
      const namespace = job.metadata!.namespace!;
      const config = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace } };
      await call(
        ["apply", "-f", "-"],
        JSON.stringify({ ...config, binaryData: { "app.tgz": archive.toString("base64") } }),
      );
      const begun = performance.now();
      await call(["apply", "-f", "-"], JSON.stringify(byHand(pod, name, settings.registry.push)));
      const phase = async () => (await kube.get(Pod, name, namespace))?.status?.phase;
      await timeUntil(async () => {
        const now = await phase();
        if (now === "Failed") throw new Error(await call(["logs", "-n", namespace, name]));
        return now === "Succeeded";
      });
      ratios.push(ours / (performance.now() - begun));
      await call(["delete", "-n", namespace, "pod,configmap", name]);
    }
    return [{ name: "archive-build", value: median(ratios), unit: "x by hand in a pod", goal: "<= 1.3" }];
  },
};

async function archiveOf(files: Record<string, string>): Promise<Buffer> {
  const archive = pack();
  for (const [name, content] of Object.entries(files)) archive.entry({ name }, content);
  archive.finalize();
  return gzipSync(await buffer(archive));
}

async function upload(door: Door, S: string, archive: Buffer): Promise<string> {
  type Target = { uploadUrl: string; contentType: string; archiveRef: string };
  const target = await door.must<Target>("POST", `${S}/uploads`, {});
  const headers = { "content-type": target.contentType };
  const answer = await fetch(target.uploadUrl, { method: "PUT", headers, body: new Uint8Array(archive) });
  if (!answer.ok) throw new Error(`upload: ${answer.status}`);
  return target.archiveRef;
}

async function waitFor<T>(find: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await find();
    if (found) return found;
    await delay(25);
  }
}

/** Returns the pod of one of Berth's builds with a shell script in place of its program. */
function byHand(pod: object, name: string, registry: string): object {
  const { spec, metadata } = structuredClone(pod) as {
    metadata: { namespace: string };
    spec: { nodeName?: string; volumes: object[]; containers: Record<string, unknown>[] };
  };
  delete spec.nodeName;
  const [container] = spec.containers as [Record<string, unknown> & { volumeMounts: object[] }];
  const script = `set -e
    export XDG_RUNTIME_DIR=/run/user/1000/x TMPDIR=/var/tmp BUILDAH_ISOLATION=chroot; mkdir -m 700 $XDG_RUNTIME_DIR
    mkdir /tmp/app; tar -xzf /archive/app.tgz -C /tmp/app
    buildah --storage-driver overlay bud --tls-verify=false -t ${registry}/bench/${name}:1 /tmp/app
    buildah --storage-driver overlay push --tls-verify=false ${registry}/bench/${name}:1`;
  container.command = ["sh", "-c", script];
  delete container.env;
  container.volumeMounts.push({ name: "archive", mountPath: "/archive" });
  spec.volumes.push({ name: "archive", configMap: { name } });
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: metadata.namespace, labels: { [label("kind")]: "build" } },
    spec,
  };
}
