import { type Client, Code, ConnectError } from "@connectrpc/connect";
import type { InternalService } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import { unavailable } from "../../kit/rpc/errors.ts";

const ANNOUNCE_MS = 5_000;
/** Half of the time for which the variables service remembers an announcement. */
const VALID_MS = 60_000;

/**
 * Announces the deletion of a scope to the variables service, before the transaction that deletes it: from then on
 * variables asks about the scope, so that nothing below it is read or written once the deletion is answered.
 * Throws 503 when variables cannot be reached, and then nothing is deleted.
 */
export type AnnounceDeletion = (scopeId: string) => Promise<DeletionAnnouncement>;

export type DeletionAnnouncement = {
  /** Throws 503 when the announcement may have expired. Called last in the transaction. */
  requireValid: () => void;
};

export function createAnnounceDeletion(
  variables: Pick<Client<typeof InternalService>, "announceDeletion">,
): AnnounceDeletion {
  return async (scopeId) => {
    const since = performance.now();
    await variables.announceDeletion({ scopeId }, { timeoutMs: ANNOUNCE_MS }).catch((error) => {
      // During an upgrade variables may be older than this RPC, and learns of the deletion by its event alone.
      if (!(error instanceof ConnectError && error.code === Code.Unimplemented)) throw unavailable();
    });
    return {
      requireValid() {
        if (performance.now() - since > VALID_MS) throw unavailable();
      },
    };
  };
}
