import type { Client } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { newNotice, type StoredNotice } from "../terms/notice.ts";

/** A service's current variables. `values` and `secrets` hold plaintext and are never stored. */
export type ResolvedVariables = {
  values: Record<string, string>;
  /** The values of the sensitive variables. */
  secrets: string[];
  /** The names of the sensitive variables. */
  sensitive: string[];
  /** Changes exactly when a name or a value changes. */
  fingerprint: string;
  /** The variables that are left out of the release, and why. */
  dangling: { name: string; reason: string }[];
  /** `dangling` as warnings of a deployment. */
  warnings: StoredNotice[];
  /** Names of services that connections refer to and that have not published their keys yet. */
  unpublished: string[];
};

export type ResolveVariables = (serviceId: string) => Promise<ResolvedVariables>;

/** The platform sets it, whatever the variables say. */
const PORT = "PORT";
const SENTENCES: Record<string, string> = {
  port_reserved: "the platform sets it; config.port is the port that a container listens on",
};

/** The variables service did not answer; a later try may succeed. `message` is a sentence for users. */
export class VariablesUnavailable extends Error {
  override name = "VariablesUnavailable";
  constructor(cause?: unknown) {
    super("The service's variables could not be resolved. The platform tries again.", { cause });
  }
}

/** Returns a function that asks the variables service, and throws `VariablesUnavailable` when that does not answer. */
export function createVariablesResolver(
  client: Pick<Client<typeof InternalService>, "resolveRelease">,
): ResolveVariables {
  return async (serviceId) => {
    const release = await client.resolveRelease({ serviceId }).catch((error) => {
      throw new VariablesUnavailable(error);
    });
    const values = release.data.filter(({ name }) => name !== PORT);
    const sensitive = values.filter((variable) => variable.sensitive);
    const dangling = release.dangling.map(({ name, reason }) => ({ name, reason }));
    if (values.length < release.data.length) dangling.push({ name: PORT, reason: "port_reserved" });
    return {
      values: Object.fromEntries(values.map(({ name, value }) => [name, value])),
      secrets: sensitive.map(({ value }) => value),
      sensitive: sensitive.map(({ name }) => name),
      fingerprint: release.fingerprint,
      dangling,
      warnings: dangling.map(({ name, reason }) => newNotice("resolve", reason, leftOut(name, reason))),
      unpublished: release.dangling.flatMap(({ connection }) => (connection ? [connection.service] : [])),
    };
  };
}

function leftOut(name: string, reason: string): string {
  return `The variable ${name} is left out: ${SENTENCES[reason] ?? reason.replaceAll("_", " ")}.`;
}
