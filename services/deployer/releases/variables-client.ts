import type { Client } from "@connectrpc/connect";
import type { VariablesService } from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { StoredNotice } from "../deployments/sql.ts";

/** A service's variables as of now. `values` and `secrets` hold plaintext: used at once, never stored. */
export type ResolvedVariables = {
  values: Record<string, string>;
  /** The sensitive ones among the values, and their names. */
  secrets: string[];
  sensitive: string[];
  /** Changes exactly when a name or a value changes. */
  fingerprint: string;
  /** One note for each name that is left out. */
  dangling: StoredNotice[];
  /** The same, for programs. */
  unresolved: { name: string; reason: string }[];
  /** Services that connections name and that publish nothing yet. */
  missing: string[];
};

export type ResolveVariables = (serviceId: string) => Promise<ResolvedVariables>;

/** The platform says where a process listens. */
const PORT = "PORT";
const SENTENCES: Record<string, string> = {
  port_reserved: "the platform sets it; config.port is what a container listens on",
};

/** Variables could not be asked for; it is worth trying again. */
export class VariablesUnavailable extends Error {
  override name = "VariablesUnavailable";
}

/** Asks the variables service. Throws `VariablesUnavailable`, whose message is fit for users. */
export function createVariablesResolver(
  client: Pick<Client<typeof VariablesService>, "resolveRelease">,
): ResolveVariables {
  return async (serviceId) => {
    const { data, dangling, fingerprint } = await client.resolveRelease({ serviceId }).catch((error) => {
      throw new VariablesUnavailable("The service's variables could not be resolved; it is tried again.", {
        cause: error,
      });
    });
    const at = new Date().toISOString();
    const taken = data.filter((entry) => entry.name !== PORT);
    const sensitive = taken.filter((entry) => entry.sensitive);
    const reserved = taken.length < data.length ? [{ name: PORT, reason: "port_reserved" }] : [];
    const unresolved = [...dangling.map(({ name, reason }) => ({ name, reason })), ...reserved];
    return {
      values: Object.fromEntries(taken.map(({ name, value }) => [name, value])),
      secrets: sensitive.map((entry) => entry.value),
      sensitive: sensitive.map((entry) => entry.name),
      fingerprint,
      dangling: unresolved.map(({ name, reason }) => ({
        message: `The variable ${name} is left out: ${SENTENCES[reason] ?? reason.replaceAll("_", " ")}.`,
        at,
        stage: "resolve",
        code: reason,
      })),
      unresolved,
      missing: dangling.flatMap(({ connection }) => (connection ? [connection.service] : [])),
    };
  };
}
