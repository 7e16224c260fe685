import { randomBytes } from "node:crypto";
import { isStatus, type Kube } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { namespaceOf } from "../../../kube/names.ts";
import type { Addon } from "../../port.ts";
import { replicationName, replicationSecret } from "../server/manifests.ts";
import { replicationFiles } from "../server/server-scripts.ts";

const PASSWORD = "password";

/** Returns the secret with which both servers of an addon reach each other; it is made when it is first needed. */
export async function ensureReplicationSecret(
  kube: Kube,
  addon: Addon,
  options: { namespacePrefix: string },
): Promise<string> {
  const namespace = namespaceOf(options.namespacePrefix, addon.environmentId);
  const read = async () => {
    const { data } = (await kube.get(kinds.Secret, replicationName(addon.serviceId), namespace)) ?? {};
    return data?.[PASSWORD] && Buffer.from(data[PASSWORD], "base64").toString();
  };
  const found = await read();
  if (found) return found;
  const secret = randomBytes(24).toString("base64url");
  const files = { ...replicationFiles(secret), [PASSWORD]: secret };
  await kube.create(kinds.Secret, replicationSecret(addon, options, files)).catch(ignoreConflict);
  // Another process may have been first.
  return (await read()) ?? secret;
}

/** Somebody else was first; what is next follows from what there is then. */
export function ignoreConflict(error: unknown): void {
  if (!isStatus(error, 409)) throw error;
}
