import { execFile } from "node:child_process";
import http from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { inject } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import type { Door } from "./door.ts";

export type Deployment = {
  id: string;
  version: number;
  status: string;
  errors: { message: string; stage: string; code: string }[];
  warnings: { message: string; stage: string; code: string }[];
  healthyAt?: string;
  finishedAt?: string;
  image?: string;
};

/** Returns the gzipped tarball of an example app, packed as a user packs it. */
export async function archiveOf(app: string, extra: string[] = []): Promise<Buffer> {
  const dir = join(import.meta.dirname, "../apps", app);
  const options = { encoding: "buffer" as const, maxBuffer: 64 * 1024 * 1024 };
  const { stdout } = await promisify(execFile)("tar", ["-cz", "-C", dir, ...extra, "."], options);
  return stdout;
}

/** Uploads an archive for a service and deploys it; returns the accepted deployment. */
export async function deployArchive(world: Door, S: string, archive: Buffer): Promise<Deployment> {
  const target = await world.must<{
    uploadUrl: string;
    contentType: string;
    method: string;
    archiveRef: string;
  }>("POST", `${S}/uploads`, { sizeBytes: archive.length });
  const put = await fetch(target.uploadUrl, {
    method: target.method,
    headers: { "content-type": target.contentType },
    body: new Uint8Array(archive),
  });
  if (!put.ok) throw new Error(`upload: ${put.status} ${await put.text()}`);
  return world.must<Deployment>("POST", `${S}/deploy-from-archive`, { archiveRef: target.archiveRef });
}

/** Waits until the deployment of this version is healthy or finished, and returns it. */
export function settled(world: Door, S: string, version: number): Promise<Deployment> {
  return eventually(`version ${version} of ${S} settles`, async () => {
    const found = await world.must<Deployment>("GET", `${S}/deployments/${version}`);
    return (found.healthyAt !== undefined || found.finishedAt !== undefined) && found;
  });
}

/** Returns the address at which the router or ingress of apps listens. */
export const appsHost = () => inject("platform")?.appsHost ?? "127.0.0.1";

/** GETs an app through the router, by the host of its URL; does not follow redirects. */
export function open(url: string, path = "/"): Promise<{ status: number; body: string }> {
  const { host, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const request = http.get({ host: appsHost(), port: port || 80, path, headers: { host } }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        body += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    request.on("error", reject);
  });
}
