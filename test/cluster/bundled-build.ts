import { readFile } from "node:fs/promises";
import { request } from "node:http";
import { dirname, join } from "node:path";
import { type Deployment, settled } from "../support/apps.ts";
import { archiveOf } from "../support/archives.ts";
import { readRun } from "../support/cluster-run.ts";
import type { Door } from "../support/door.ts";
import type { Kubectl } from "./kubectl.ts";

/** Builds a worker that needs no base image, in the installation in this namespace; returns its deployment. */
export async function buildWorker(door: Door, kubectl: Kubectl, namespace: string, service: string) {
  const archive = await pauseApp();
  const target = await door.must<{
    uploadUrl: string;
    contentType: string;
    method: string;
    archiveRef: string;
  }>("POST", `${service}/uploads`, { sizeBytes: archive.length });
  // The object store has a name in the cluster alone, which is signed.
  const store = `${namespace}-berth-object-store-0`;
  const status = await kubectl.forwarded(namespace, store, 7070, (origin) => {
    const { host, pathname, search } = new URL(target.uploadUrl);
    const headers = { host, "content-type": target.contentType, "content-length": archive.length };
    return send(new URL(pathname + search, origin), target.method, headers, archive);
  });
  if (status !== 200) throw new Error(`the upload is answered with ${status}`);
  const accepted = await door.must<Deployment>("POST", `${service}/deploy-from-archive`, {
    archiveRef: target.archiveRef,
  });
  return settled(door, service, accepted.version);
}

/** A program that waits, in an image of its own. */
async function pauseApp(): Promise<Buffer> {
  const { kubectl } = await readRun();
  const dockerfile = 'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n';
  return archiveOf([
    { name: "Dockerfile", content: dockerfile },
    { name: "pause", mode: 0o755, content: await readFile(join(dirname(kubectl), "pause")) },
  ]);
}

function send(
  url: URL,
  method: string,
  headers: Record<string, string | number>,
  body: Buffer,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    });
    sent.on("error", reject).end(body);
  });
}
