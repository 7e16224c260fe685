import { type Client, Code, ConnectError } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { unavailable } from "../../kit/rpc/refusals.ts";

const ANNOUNCE_MS = 5_000;
/** Half of the time for which the variables service remembers an announcement. */
const VALID_MS = 60_000;

/**
 * Announces the deletion of a scope, or the `config.env` or the new name of a service, to the variables service, before the
 * transaction that makes it: from then on variables asks about the scope, so that nothing below it is read or written once
 * the deletion is answered, nor at its former path, and no set is read without that `config.env`. Throws 503 when variables
 * cannot be reached, and then nothing is changed.
 */
export type Announce = (scopeId: string, what?: "rename") => Promise<Announcement>;

export type Announcement = {
  /** Throws 503 when the announcement may have expired. Called last in the transaction. */
  requireValid: () => void;
};

export function createAnnounce(
  variables: Pick<Client<typeof InternalService>, "announceDeletion" | "announceRename">,
): Announce {
  const options = { timeoutMs: ANNOUNCE_MS };
  return async (scopeId, what) => {
    const since = performance.now();
    const announcing =
      what === "rename"
        ? variables.announceRename({ serviceId: scopeId }, options)
        : variables.announceDeletion({ scopeId }, options);
    await announcing.catch((error) => {
      // During an upgrade variables may be older than the RPC. It learns of a deletion by its event alone, and shows no
      // config.env; but it would delete the variables of a renamed service once another one has the name.
      const older = error instanceof ConnectError && error.code === Code.Unimplemented;
      if (!older || what === "rename") throw unavailable();
    });
    return {
      requireValid() {
        if (performance.now() - since > VALID_MS) throw unavailable();
      },
    };
  };
}
