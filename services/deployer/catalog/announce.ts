import { type Client, Code, ConnectError } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { unavailable } from "../../kit/rpc/errors.ts";

const ANNOUNCE_MS = 5_000;
/** Half of the time for which the variables service remembers an announcement. */
const VALID_MS = 60_000;

/**
 * Announces the deletion of a scope, or the `config.env` of a service, to the variables service, before the transaction
 * that makes it: from then on variables asks about the scope, so that nothing below it is read or written once the deletion
 * is answered, and no set is read without that `config.env`. Throws 503 when variables cannot be reached, and then nothing
 * is changed.
 */
export type Announce = (scopeId: string) => Promise<Announcement>;

export type Announcement = {
  /** Throws 503 when the announcement may have expired. Called last in the transaction. */
  requireValid: () => void;
};

export function createAnnounce(
  variables: Pick<Client<typeof InternalService>, "announceDeletion">,
): Announce {
  return async (scopeId) => {
    const since = performance.now();
    await variables.announceDeletion({ scopeId }, { timeoutMs: ANNOUNCE_MS }).catch((error) => {
      // During an upgrade variables may be older than this RPC: it learns of a deletion by its event alone, and shows no config.env.
      if (!(error instanceof ConnectError && error.code === Code.Unimplemented)) throw unavailable();
    });
    return {
      requireValid() {
        if (performance.now() - since > VALID_MS) throw unavailable();
      },
    };
  };
}
