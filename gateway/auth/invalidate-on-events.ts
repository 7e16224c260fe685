import { fromBinary } from "@bufbuild/protobuf";
import {
  AccountCreatedSchema,
  GrantRevokedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
  MemberRoleChangedSchema,
  TokenRevokedSchema,
  UserDeletedSchema,
} from "../../proto/gen/berth/identity/v1/events_pb.ts";
import type { Bus } from "../../services/kit/events/bus.ts";
import type { Logger } from "../../services/kit/log.ts";
import type { CallerCache } from "./caller-cache.ts";

// Events that change what tokens may do, and the user they belong to.
const AFFECTED_USER: Record<string, (payload: Uint8Array) => string> = {
  AccountCreated: (payload) => fromBinary(AccountCreatedSchema, payload).ownerUserId,
  GrantRevoked: (payload) => fromBinary(GrantRevokedSchema, payload).userId,
  MemberAdded: (payload) => fromBinary(MemberAddedSchema, payload).userId,
  MemberRemoved: (payload) => fromBinary(MemberRemovedSchema, payload).userId,
  MemberRoleChanged: (payload) => fromBinary(MemberRoleChangedSchema, payload).userId,
  UserDeleted: (payload) => fromBinary(UserDeletedSchema, payload).userId,
  TokenRevoked: (payload) => fromBinary(TokenRevokedSchema, payload).userId,
};

/**
 * Drops cached callers when identity's events arrive. The subscription is not durable: after an outage of NATS all
 * callers are dropped, and no entry lives longer than 5 s.
 */
export function invalidateOnEvents(bus: Bus, callers: CallerCache, log: Logger): void {
  void bus.connected.then(({ nc }) => {
    nc.subscribe("berth.identity.v1.*.*", {
      callback: (error, message) => {
        const affectedUser = AFFECTED_USER[message?.subject.split(".")[3] ?? ""];
        if (error || !affectedUser) return;
        try {
          callers.invalidateUser(affectedUser(message.data));
        } catch (cause) {
          log.warn({ err: cause, subject: message.subject }, "an event could not be read");
          callers.invalidateAll();
        }
      },
    });
    void (async () => {
      for await (const status of nc.status()) if (status.type === "reconnect") callers.invalidateAll();
    })();
  });
}
