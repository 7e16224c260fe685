import { create, toBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import {
  MemberRemovedSchema,
  MemberRoleChangedSchema,
  TokenRevokedSchema,
} from "../../proto/gen/berth/identity/v1/events_pb.ts";
import { type CallerRecord, CallerRecordSchema } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import { connectBus } from "../../services/kit/events/bus.ts";
import { createLog } from "../../services/kit/log.ts";
import { atLeast } from "../../services/kit/rpc/caller-token.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { testNats } from "../../test/support/servers/nats.ts";
import { cacheKeyOf, createCallerCache } from "./caller-cache.ts";
import { invalidateOnEvents } from "./invalidate-on-events.ts";

describe("the cache of callers", () => {
  const record = (more: Partial<CallerRecord> = {}) =>
    create(CallerRecordSchema, { userId: "usr_1", tokenId: "tok_1", memberships: [], ...more } as never);

  /** A cache whose questions to identity are answered by hand. */
  function byHand() {
    const clock = { ms: 1_000_000 };
    const questions: ((answer: CallerRecord | undefined) => void)[] = [];
    const findCaller = () => new Promise<CallerRecord | undefined>((resolve) => void questions.push(resolve));
    const callers = createCallerCache({ findCaller, keys: [Buffer.alloc(32)], now: () => clock.ms });
    return { clock, questions, callers, key: cacheKeyOf("t") };
  }

  test("concurrent questions about one token are one", async () => {
    const { callers, questions, key } = byHand();
    const both = Promise.all([callers.lookup(key, key), callers.lookup(key, key)]);
    expect(questions.length).toBe(1);
    questions[0]!(record());
    const [a, b] = await both;
    expect(a.caller).toBe(b.caller);
    expect(callers.cached(key)).toBe(a);
  });

  test("an entry ends after 5 s, and with its token", async () => {
    const { callers, questions, key, clock } = byHand();
    const soon = { seconds: BigInt(clock.ms / 1000 + 2), nanos: 0 };
    const asking = callers.lookup(key, key);
    questions[0]!(record({ expiresAt: soon as never }));
    await asking;
    clock.ms += 1_999;
    expect(callers.cached(key)).toBeDefined();
    clock.ms += 1;
    expect(callers.cached(key)).toBeUndefined();
  });

  test("an answer to a question from before a revocation is not kept", async () => {
    const { callers, questions, key } = byHand();
    const asking = callers.lookup(key, key);
    callers.invalidateUser("usr_1");
    questions[0]!(record());
    await asking;
    expect(callers.cached(key)).toBeUndefined();
  });

  test("a refresh is answered by a question that began after it", async () => {
    const { callers, questions, key } = byHand();
    const early = callers.lookup(key, key);
    const fresh = callers.refresh(key, key);
    questions[0]!(record());
    await early;
    await eventually("a second question", async () => questions.length === 2);
    questions[1]!(record({ memberships: [{ accountId: "acc_1", role: "owner" }] as never }));
    expect((await fresh).caller?.roles.get("acc_1")).toBe("owner");
  });

  test("a role or a limit that only a newer version knows permits nothing", async () => {
    const { callers, questions, key } = byHand();
    const asking = callers.lookup(key, key);
    questions[0]!(
      record({ roleCap: "viewer", memberships: [{ accountId: "acc_1", role: "owner" }] as never }),
    );
    const { caller } = await asking;
    expect(atLeast(caller?.roles.get("acc_1"), "reader")).toBe(false);
    const askingAgain = callers.lookup("other", "other");
    questions[1]!(
      record({ roleCap: "reader", memberships: [{ accountId: "acc_1", role: "viewer" }] as never }),
    );
    expect(atLeast((await askingAgain).caller?.roles.get("acc_1"), "reader")).toBe(false);
  });

  test("unknown tokens are cached as well", async () => {
    const { callers, questions, key } = byHand();
    const asking = callers.lookup(key, key);
    questions[0]!(undefined);
    await asking;
    expect(callers.cached(key)).toEqual({ caller: undefined, until: 1_005_000 });
  });

  test("guessed tokens displace no caller", async () => {
    const findCaller = async (token: string) => (token === "known" ? record() : undefined);
    const callers = createCallerCache({ findCaller, keys: [Buffer.alloc(32)], max: 2 });
    for (const token of ["known", "a", "b", "c"]) await callers.lookup(cacheKeyOf(token), token);
    expect(callers.cached(cacheKeyOf("known"))?.caller).toBeDefined();
  });
});

describe("events", () => {
  test("a revoked token and a changed membership are forgotten, and everything when NATS was away", async () => {
    const nats = await testNats();
    const log = createLog("test", "silent");
    const bus = connectBus(nats.url, "test", log);
    // A clock that stands still: nothing is forgotten because of its age.
    const findCaller = async () => create(CallerRecordSchema, { userId: "usr_1", tokenId: "tok_1" });
    const callers = createCallerCache({ findCaller, keys: [Buffer.alloc(32)], now: () => 0 });
    invalidateOnEvents(bus, callers, log);
    const { nc } = await bus.connected;
    const key = cacheKeyOf("t");
    const forgotten = () => eventually("the caller is forgotten", async () => !callers.cached(key));
    const publish = (name: string, payload: Uint8Array) =>
      nc.publish(`berth.identity.v1.${name}.acc_1`, payload);
    const userId = "usr_1";
    const events: [string, Uint8Array][] = [
      ["TokenRevoked", toBinary(TokenRevokedSchema, create(TokenRevokedSchema, { userId }))],
      ["MemberRemoved", toBinary(MemberRemovedSchema, create(MemberRemovedSchema, { userId }))],
      ["MemberRoleChanged", toBinary(MemberRoleChangedSchema, create(MemberRoleChangedSchema, { userId }))],
    ];
    for (const [name, payload] of events) {
      await callers.lookup(key, key);
      publish(name, payload);
      await forgotten();
    }
    await callers.lookup(key, key);
    const others = create(TokenRevokedSchema, { userId: "usr_2" });
    publish("TokenRevoked", toBinary(TokenRevokedSchema, others));
    await nc.flush();
    expect(callers.cached(key)).toBeDefined();
    await nats.stop();
    const again = await nats.restart();
    await forgotten();
    await bus.close();
    await again.remove();
  });
});
