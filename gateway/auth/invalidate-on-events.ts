import { fromBinary } from "@bufbuild/protobuf";
import {
  AccountCreatedSchema,
  MemberAddedSchema,
  MemberRemovedSchema,
  MemberRoleChangedSchema,
  TokenRevokedSchema,
} from "../../proto/gen/berth/identity/v1/events_pb.ts";
import type { Bus } from "../../services/kit/events/bus.ts";
import type { Logger } from "../../services/kit/log.ts";
import type { Callers } from "./caller-cache.ts";

// What changes whom a token stands for, and the user it concerns.
const CONCERNS: Record<string, (payload: Uint8Array) => string> = {
  AccountCreated: (payload) => fromBinary(AccountCreatedSchema, payload).ownerUserId,
  MemberAdded: (payload) => fromBinary(MemberAddedSchema, payload).userId,
  MemberRemoved: (payload) => fromBinary(MemberRemovedSchema, payload).userId,
  MemberRoleChanged: (payload) => fromBinary(MemberRoleChangedSchema, payload).userId,
  TokenRevoked: (payload) => fromBinary(TokenRevokedSchema, payload).userId,
};

/**
 * Forgets cached callers as identity's events arrive. The subscription is not durable: what is missed
 * while NATS is away is forgotten as a whole when it is back, and no entry lives longer than 5 s.
 */
export function forgetOnEvents(bus: Bus, callers: Callers, log: Logger): void {
  void bus.connected.then(({ nc }) => {
    nc.subscribe("berth.identity.v1.*.*", {
      callback: (error, message) => {
        const concerns = CONCERNS[message?.subject.split(".")[3] ?? ""];
        if (error || !concerns) return;
        try {
          callers.forgetUser(concerns(message.data));
        } catch (cause) {
          log.warn({ err: cause, subject: message.subject }, "an event could not be read");
          callers.forgetAll();
        }
      },
    });
    void (async () => {
      for await (const status of nc.status()) if (status.type === "reconnect") callers.forgetAll();
    })();
  });
}
