import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { refuse } from "../../services/kit/rpc/refusals.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;
/** What billing does with a webhook. */
let receive: (payload: Buffer, signature: string) => void;

beforeAll(async () => {
  platform = await testPlatform({
    webhooks: {
      receiveWebhook({ payload, signature }) {
        receive(Buffer.from(payload), signature);
        return {};
      },
    },
  });
  // Webhooks of all installations come from the same few addresses.
  gateway = await platform.gateway({ RATE_LIMITS: "on", RATE_LIMIT_PUBLIC: "1", RATE_LIMIT_WRITES: "1" });
});

afterAll(() => platform.stop());

beforeEach(() => {
  receive = () => {};
});

const post = (body: string | Buffer, headers: Record<string, string> = {}) =>
  fetch(`${gateway.origin}/webhooks/stripe`, {
    method: "POST",
    body: body as string,
    headers: { "content-type": "application/json; charset=utf-8", ...headers },
  });

async function codeOf(answer: Response) {
  const { error } = (await answer.json()) as { error: { code: string } };
  return [answer.status, error.code];
}

test("a webhook arrives byte by byte with its signature, without a token and however many there are", async () => {
  const seen: string[] = [];
  receive = (payload, signature) => void seen.push(`${signature} ${payload.toString("latin1")}`);
  const bodies = ['{ "id":"evt_1",\r\n\t"n": 1.0 }', "{}", Buffer.from([0xff, 0x00, 0xfe])];
  for (const body of bodies) {
    const answer = await post(body, { "stripe-signature": "t=1,v1=ab" });
    expect([answer.status, await answer.text()]).toEqual([200, '{"received":true}']);
  }
  expect(seen).toEqual(bodies.map((body) => `t=1,v1=ab ${Buffer.from(body as string).toString("latin1")}`));
});

test("a signature that does not verify, or none, is refused", async () => {
  receive = (_payload, signature) => {
    expect(signature).toBe("");
    throw refuse(400, "webhook_signature_invalid", "The signature does not belong to this body.");
  };
  expect(await codeOf(await post("{}"))).toEqual([400, "webhook_signature_invalid"]);
});

test("a body of 1 MiB passes, and a larger one is refused", async () => {
  let size = 0;
  receive = (payload) => {
    size = payload.length;
  };
  expect((await post(Buffer.alloc(1024 * 1024, " "))).status).toBe(200);
  expect(size).toBe(1024 * 1024);
  expect(await codeOf(await post(Buffer.alloc(1024 * 1024 + 1, " ")))).toEqual([413, "payload_too_large"]);
});

test("only POST is taken there", async () => {
  const answer = await fetch(`${gateway.origin}/webhooks/stripe`);
  expect([answer.status, answer.headers.get("allow")]).toEqual([405, "POST"]);
});

test("a fault of billing's, and billing away, are answered so that the provider sends it again", async () => {
  receive = () => {
    throw new Error("a secret sentence");
  };
  const failed = await post("{}");
  expect(failed.status).toBe(500);
  expect(await failed.text()).not.toContain("secret");
  await platform.stopBilling();
  expect(await codeOf(await post("{}"))).toEqual([503, "unavailable"]);
});
