import { create } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import type { InternalService, ReleaseVariables } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { DanglingVariableSchema } from "../../../proto/gen/berth/variables/v1/variables_pb.ts";

/**
 * Resolves what a release of a service gets: the variables in plaintext, never stored, and the names that are left out.
 * Throws `VariablesUnavailable`.
 */
export type ResolveVariables = (serviceId: string) => Promise<ReleaseVariables>;

/** The platform sets it, whatever the variables say. */
const PORT = "PORT";

/** The variables service did not answer; a later try may succeed. `message` is a sentence for users. */
export class VariablesUnavailable extends Error {
  override name = "VariablesUnavailable";
  constructor(cause?: unknown) {
    super("The service's variables could not be resolved. The platform tries again.", { cause });
  }
}

/** Returns a function that asks the variables service; a variable PORT dangles in its answer, as `port_reserved`. */
export function createVariablesResolver(
  client: Pick<Client<typeof InternalService>, "resolveRelease">,
): ResolveVariables {
  return async (serviceId) => {
    const release = await client.resolveRelease({ serviceId }).catch((error) => {
      throw new VariablesUnavailable(error);
    });
    const data = release.data.filter(({ name }) => name !== PORT);
    if (data.length === release.data.length) return release;
    const reserved = create(DanglingVariableSchema, { name: PORT, reason: "port_reserved" });
    return { ...release, data, dangling: [...release.dangling, reserved] };
  };
}
