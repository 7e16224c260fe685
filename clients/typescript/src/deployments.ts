import { Unreachable } from "./errors.ts";
import type { Operations } from "./generated/api.ts";
import type { Deployment } from "./generated/types.ts";
import type { ServiceAddress } from "./path.ts";
import { anyOf } from "./signals.ts";
import type { StreamOptions } from "./streams.ts";
import { type Archive, put, type UploadOptions } from "./upload.ts";

/** How a deployment ended; `deployment.errors` says why one failed. */
export type Outcome = { outcome: "healthy" | "failed" | "superseded"; deployment: Deployment };

export type WaitOptions = StreamOptions & {
  /** Called for each state, build stage and warning. */
  onProgress?: (deployment: Deployment) => void;
};

/** What is built on several operations of deployments. */
export const deploymentHelpers = (api: Operations["deployments"]) => ({
  /** Waits until a deployment is healthy, has failed, or was superseded by a later one. Nothing else ends it. */
  async wait(at: ServiceAddress, version: number, options: WaitOptions = {}): Promise<Outcome> {
    const { onProgress, ...rest } = options;
    let deployment: Deployment | undefined;
    for await (const event of api.follow(at, version, rest)) {
      if (event.event !== "end") {
        deployment = event.data;
        onProgress?.(deployment);
        continue;
      }
      const { outcome } = event.data as { outcome: Outcome["outcome"] };
      return { outcome, deployment: deployment ?? (await api.get(at, version)) };
    }
    return outcomeOf(await api.get(at, version));
  },

  /** Uploads the source of a service: a gzipped tar archive. Resolves to the `archiveRef` to deploy from. */
  async upload(at: ServiceAddress, archive: Archive, options: UploadOptions = {}): Promise<string> {
    const { signal } = options;
    const blob = archive instanceof Blob ? archive : new Blob([archive]);
    const target = await api.createUpload(at, { sizeBytes: blob.size }, { ...(signal && { signal }) });
    const { uploadUrl: url, contentType, expiresInSeconds } = target;
    const late = AbortSignal.timeout(expiresInSeconds * 1_000);
    const limits = { ...options, signal: anyOf(signal, late) };
    await put({ url, blob, contentType, ...limits }).catch((error: unknown) => {
      if (signal?.aborted || !late.aborted) throw error;
      throw new Unreachable(`The upload took longer than ${expiresInSeconds} s.`, { cause: error });
    });
    return target.archiveRef;
  },
});

/** Returns how a deployment ended that a stream no longer tells of. */
function outcomeOf(deployment: Deployment): Outcome {
  const { status, healthyAt } = deployment;
  if (status === "failed" || status === "superseded") return { outcome: status, deployment };
  if (healthyAt) return { outcome: "healthy", deployment };
  throw new Error(`The stream of version ${deployment.version} ended while it is ${status}.`);
}
