import { expect, test } from "vitest";
import { pushImage } from "./push-image.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;
const ok = { code: 0, digest: DIGEST, error: "" };
const failure = (error: string) => ({ code: 125, digest: "", error });

/** Pushes to a registry that answers so, the last answer again and again. */
function pushTo(
  answers: ReturnType<typeof failure>[],
  options: Partial<Parameters<typeof pushImage>[1]> = {},
) {
  const lines: string[] = [];
  let tries = 0;
  const push = async (log: (line: string) => void) => {
    log(`pushing ${++tries}`);
    return answers[tries - 1] ?? answers.at(-1)!;
  };
  const { signal } = new AbortController();
  const log = (line: string) => void lines.push(line);
  const pushed = pushImage(push, { log, signal, everyMs: 1, ...options });
  return { pushed, lines, tries: () => tries };
}

const AWAY = failure("received unexpected HTTP status: 503 Service Unavailable");
const DENIED = failure("writing blob: requested access to the resource is denied");

test("an image that the registry takes at once is pushed once", async () => {
  const { pushed, lines } = pushTo([ok]);
  expect(await pushed).toBe(DIGEST);
  expect(lines).toEqual(["pushing 1"]);
});

test("a registry that is away is tried until it takes the image, and the log says so once", async () => {
  const { pushed, lines, tries } = pushTo([...Array(20).fill(AWAY), ok]);
  expect(await pushed).toBe(DIGEST);
  expect(tries()).toBe(21);
  expect(lines).toEqual([
    "pushing 1",
    "The image could not be pushed yet; trying again for up to 10 minutes.",
  ]);
});

test.each([
  "checking push permissions: unauthorized: authentication required",
  "writing blob: requested access to the resource is denied",
  "status 403 Forbidden",
  "tls: failed to verify certificate: x509: certificate signed by unknown authority",
  "received unexpected HTTP status: 413 Request Entity Too Large",
])("a push that is refused ends at the third try: %s", async (error) => {
  const { pushed, tries } = pushTo([failure(error)]);
  await expect(pushed).rejects.toThrow(`the image could not be pushed: ${error}`);
  expect(tries()).toBe(3);
});

test("only refusals count: what a registry says while it starts ends nothing", async () => {
  const taken = pushTo([AWAY, AWAY, AWAY, DENIED, AWAY, DENIED, ok]);
  expect(await taken.pushed).toBe(DIGEST);
  const refused = pushTo([AWAY, DENIED, AWAY, DENIED, AWAY, DENIED]);
  await expect(refused.pushed).rejects.toThrow("denied");
  expect(refused.tries()).toBe(6);
});

test("a registry that stays away fails the push with what it said last, once the time is over", async () => {
  const { pushed, tries } = pushTo([AWAY], { forMs: 0 });
  await expect(pushed).rejects.toThrow("503 Service Unavailable");
  expect(tries()).toBe(1);
});

test("a build that is over or cancelled ends its push, also in a pause, with the reason", async () => {
  const build = new AbortController();
  const log = (line: string) => line.includes("trying again") && build.abort(new Error("build_timeout"));
  const { pushed, tries } = pushTo([AWAY], { log, signal: build.signal, everyMs: 3_600_000 });
  await expect(pushed).rejects.toThrow("build_timeout");
  expect(tries()).toBe(1);
});
