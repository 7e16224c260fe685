import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  imageArtifact,
  type LogLine,
  type Release,
  type Runtime,
  RuntimeRefusal,
  type RuntimeStatus,
} from "../../../services/deployer/runtime/port.ts";

export type RuntimeHarness = {
  runtime: Runtime;
  /** An artifact in which `node` is on PATH. */
  artifact: string;
  /** GET at a service's URL: status and body. */
  fetch(url: string, path: string): Promise<{ status: number; body: string }>;
  /** False where stdout and stderr arrive as one: then all of it is stdout. */
  splitsStreams?: boolean;
  close(): Promise<void>;
};

/** Answers with its variable ANSWER, after DELAY ms; GET /crash ends it. */
export const answeringApp = `
  console.log("listening as", process.env.ANSWER);
  require("node:http").createServer((req, res) => {
    if (req.url === "/crash") { console.error("going down"); process.exit(3); }
    setTimeout(() => res.end(process.env.ANSWER), Number(process.env.DELAY ?? 0));
  }).listen(process.env.PORT);
`;
const crashingApp = `console.log("cannot find my settings"); process.exit(7);`;
/** Answers with a name that each of its processes gives itself. */
const namedApp = `const name = crypto.randomUUID();
  require("node:http").createServer((req, res) => res.end(name)).listen(process.env.PORT)`;
const workingApp = `console.log("at work"); setInterval(() => {}, 1000);`;

let services = 0;

/** A release of a service of its own whose process is `script`. */
export function releaseOf(artifact: string, script: string, changes: Partial<Release> = {}): Release {
  services++;
  const serviceId = `svc_${process.pid}x${services}`;
  return {
    serviceId,
    accountId: "acc_1",
    projectId: "prj_1",
    environmentId: "env_1",
    names: { project: "shop", environment: "test", service: `app${services}` },
    type: "web",
    version: 1,
    revision: 1,
    artifact,
    command: `node -e "$SCRIPT"`,
    port: 8080,
    replicas: 1,
    size: "nano",
    minReadySeconds: 0,
    ...changes,
    env: { SCRIPT: script, ANSWER: "one", ...changes.env },
  };
}

/** Resolves with the status that fulfils `wanted`. */
export async function statusOf(
  runtime: Runtime,
  serviceId: string,
  wanted: (status: RuntimeStatus) => boolean,
): Promise<RuntimeStatus> {
  for (const until = Date.now() + 40_000; ; await delay(20)) {
    const status = await runtime.status(serviceId);
    if (status && wanted(status)) return status;
    if (Date.now() > until) throw new Error(`the service never got there: ${JSON.stringify(status)}`);
  }
}

export const isRunning = (status: RuntimeStatus) => status.state === "running";

/** What every runtime guarantees. The Kubernetes adapter passes the same. */
export function runtimeContract(name: string, open: () => Promise<RuntimeHarness>): void {
  describe(`runtime ${name}`, () => {
    let harness: RuntimeHarness;
    let runtime: Runtime;
    const release = (script: string, changes: Partial<Release> = {}) =>
      releaseOf(harness.artifact, script, changes);
    const get = async (status: RuntimeStatus, path = "/") => harness.fetch(status.url!, path);
    /** What routes requests may learn of a change a moment after the runtime: across machines, it has to. */
    const soon = (answered: () => Promise<void>) => vi.waitFor(answered, { timeout: 10_000, interval: 20 });
    const answersWith = (status: RuntimeStatus, code: number) =>
      soon(async () => expect((await get(status)).status).toBe(code));
    const running = async ({ serviceId }: Release) => {
      const status = await statusOf(runtime, serviceId, isRunning);
      if (status.url) await answersWith(status, 200);
      return status;
    };
    /** As what a line of stderr is told. */
    const stderr = () => (harness.splitsStreams === false ? "stdout" : "stderr");
    beforeAll(async () => {
      harness = await open();
      runtime = harness.runtime;
    });
    afterAll(() => harness.close());

    test("a release answers at its URL with the variables it was given", async () => {
      const one = release(answeringApp, { env: { ANSWER: "hello" } });
      await runtime.apply(one);
      const status = await running(one);
      expect(await get(status)).toEqual({ status: 200, body: "hello" });
      expect(status).toMatchObject({ version: 1, revision: 1, restarts: 0 });
      expect(status.serving).toEqual({ version: 1, revision: 1 });
      expect(Date.parse(status.healthySince!)).toBeLessThanOrEqual(Date.now());
    });

    test("applying the same release twice starts it once", async () => {
      const one = release(answeringApp);
      await Promise.all([runtime.apply(one), runtime.apply({ ...one, env: { ...one.env } })]);
      const first = await running(one);
      await runtime.apply(one);
      expect(await runtime.status(one.serviceId)).toEqual(first);
      // It answers before its line has reached the log.
      await vi.waitFor(async () => {
        const { lines } = await runtime.logs({ serviceId: one.serviceId, limit: 10 });
        expect(lines.filter((line) => line.message.startsWith("listening"))).toHaveLength(1);
      }, 10_000);
    });

    test("a new revision of the variables rolls over without a refused request", async () => {
      const one = release(answeringApp, { env: { ANSWER: "old" } });
      await runtime.apply(one);
      const before = await running(one);
      await runtime.apply({ ...one, revision: 2, env: { ...one.env, ANSWER: "new" } });
      const answers: { status: number; body: string }[] = [];
      do answers.push(await get(before));
      while (answers.at(-1)!.body !== "new" && answers.length < 20_000);
      expect(answers.filter((answer) => answer.status !== 200)).toEqual([]);
      const after = await statusOf(runtime, one.serviceId, (now) => isRunning(now) && now.revision === 2);
      expect(after.url).toBe(before.url);
      await soon(async () => expect((await get(after)).body).toBe("new"));
    });

    test("a request that the old release has taken is answered by it", async () => {
      const one = release(answeringApp, { env: { ANSWER: "slow", DELAY: "1500" } });
      await runtime.apply(one);
      const before = await running(one);
      const slow = get(before);
      await runtime.apply({ ...one, version: 2, env: { ...one.env, DELAY: "0", ANSWER: "quick" } });
      await statusOf(runtime, one.serviceId, (now) => isRunning(now) && now.version === 2);
      await soon(async () => expect((await get(before)).body).toBe("quick"));
      expect(await slow).toEqual({ status: 200, body: "slow" });
    });

    test("a release that never gets healthy leaves the old one serving, and says why", async () => {
      const one = release(answeringApp, { env: { ANSWER: "still here" } });
      await runtime.apply(one);
      await running(one);
      await runtime.apply({ ...one, version: 2, env: { SCRIPT: crashingApp } });
      const status = await statusOf(runtime, one.serviceId, (now) => now.state === "degraded");
      expect(status).toMatchObject({
        version: 2,
        reason: "crash_loop",
        serving: { version: 1, revision: 1 },
      });
      expect(status.message).toContain("cannot find my settings");
      expect(status.healthySince).toBeUndefined();
      expect((await get(status)).body).toBe("still here");
    });

    test("a release that ends again and again is crashed, with its last lines", async () => {
      const one = release(crashingApp);
      await runtime.apply(one);
      const status = await statusOf(runtime, one.serviceId, (now) => now.state === "crashed");
      expect(status.message).toMatch(/exit code 7[\s\S]*cannot find my settings/);
      expect(status.serving).toBeUndefined();
      await answersWith(status, 503);
    });

    test("values of sensitive variables are not quoted in a status", async () => {
      const one = release(`console.log("using", process.env.KEY); process.exit(1)`, {
        env: { KEY: "k-4711-secret" },
        sensitive: ["KEY"],
      });
      await runtime.apply(one);
      const status = await statusOf(runtime, one.serviceId, (now) => now.state === "crashed");
      expect(status.message).toContain("using ***");
      expect(JSON.stringify(status)).not.toContain("4711");
    });

    test("a service that crashed is started again, and what it said before is still in its log", async () => {
      const one = release(answeringApp, { env: { ANSWER: "back" } });
      await runtime.apply(one);
      const before = await running(one);
      await get(before, "/crash");
      const after = await statusOf(runtime, one.serviceId, (now) => isRunning(now) && now.restarts === 1);
      await soon(async () => expect((await get(after)).body).toBe("back"));
      expect(after.healthySince).toBe(before.healthySince);
      const { lines } = await runtime.logs({ serviceId: one.serviceId, limit: 100 });
      expect(lines.map((line) => [line.stream, line.message])).toEqual([
        ["stdout", "listening as back"],
        [stderr(), "going down"],
        ["stdout", "listening as back"],
      ]);
    });

    test("a worker is running without a port, and has no URL", async () => {
      const one = release(workingApp, { type: "worker", minReadySeconds: 1 });
      await runtime.apply(one);
      const status = await running(one);
      expect(status.url).toBeUndefined();
    });

    test("a health check path decides whether a release is healthy", async () => {
      const picky = `require("node:http").createServer((req, res) => {
        res.statusCode = req.url === "/healthz" && process.uptime() < 1 ? 500 : 200; res.end("ok");
      }).listen(process.env.PORT);`;
      const one = release(picky, { healthCheckPath: "/healthz" });
      const seen: string[] = [];
      const stop = runtime.watch((status) => status.serviceId === one.serviceId && seen.push(status.state));
      await runtime.apply(one);
      const status = await running(one);
      stop();
      expect(seen[0]).toBe("starting");
      expect((await get(status, "/healthz")).status).toBe(200);
    });

    test("more replicas, fewer, and none, all under the same address", async () => {
      const one = release(namedApp);
      const answerers = async (status: RuntimeStatus) => {
        const answers = await Promise.all(Array.from({ length: 12 }, () => get(status)));
        return new Set(answers.map((answer) => answer.body)).size;
      };
      await runtime.apply({ ...one, replicas: 3 });
      const status = await running(one);
      await soon(async () => expect(await answerers(status)).toBe(3));
      await runtime.apply({ ...one, replicas: 1 });
      await running(one);
      await soon(async () => expect(await answerers(status)).toBe(1));
      await runtime.apply({ ...one, replicas: 0 });
      await statusOf(runtime, one.serviceId, (now) => now.state === "stopped");
      await answersWith(status, 503);
    });

    test("scaling keeps the replicas that stay, counts what runs, and leaves another version alone", async () => {
      const one = release(namedApp);
      await runtime.apply(one);
      const status = await running(one);
      const first = (await get(status)).body;
      await runtime.scale(one.serviceId, 1, { replicas: 3, size: "nano" });
      const three = await statusOf(runtime, one.serviceId, (now) => now.usage?.at(-1)?.replicas === 3);
      expect(three.scale).toEqual({ replicas: 3, size: "nano" });
      await soon(async () => {
        const answers = await Promise.all(Array.from({ length: 12 }, () => get(status)));
        const names = new Set(answers.map((answer) => answer.body));
        expect([names.size, names.has(first)]).toEqual([3, true]);
      });
      // Another size may need other processes: not everything can be resized while it runs.
      await runtime.scale(one.serviceId, 1, { replicas: 3, size: "small" });
      const resized = (now: RuntimeStatus) => isRunning(now) && now.usage?.at(-1)?.size === "small";
      const more = await statusOf(runtime, one.serviceId, resized);
      expect(more.usage?.at(-1)?.replicas).toBe(3);
      expect(more.scale).toEqual({ replicas: 3, size: "small" });
      await runtime.scale(one.serviceId, 1, { replicas: 3, size: "small" });
      await runtime.scale(one.serviceId, 2, { replicas: 1, size: "nano" });
      await runtime.scale("svc_unknown", 1, { replicas: 1, size: "nano" });
      expect(await runtime.status(one.serviceId)).toMatchObject({ version: 1, usage: more.usage });
      await runtime.scale(one.serviceId, 1, { replicas: 0, size: "small" });
      const none = await statusOf(runtime, one.serviceId, (now) => now.state === "stopped");
      expect(none.usage?.at(-1)?.replicas).toBe(0);
      const times = none.usage!.map((change) => change.at);
      expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
      await runtime.scale(one.serviceId, 1, { replicas: 1, size: "small" });
      await running(one);
      await answersWith(status, 200);
    });

    test("rolling starts new replicas of the same release once, without a refused request", async () => {
      const one = release(namedApp);
      await runtime.apply(one);
      const first = await running(one);
      const { body } = await get(first);
      await runtime.roll(one.serviceId, 1, 1);
      const answers: { status: number; body: string }[] = [];
      do answers.push(await get(first));
      while (answers.at(-1)!.body === body && answers.length < 20_000);
      expect(answers.filter((answer) => answer.status !== 200)).toEqual([]);
      const rolled = await statusOf(
        runtime,
        one.serviceId,
        (status) => status.rolls === 1 && isRunning(status),
      );
      await soon(async () => expect((await get(rolled)).body).not.toBe(body));
      expect(rolled).toMatchObject({ version: 1, revision: 1, serving: { version: 1, revision: 1 } });
      const after = (await get(rolled)).body;
      await runtime.roll(one.serviceId, 1, 1);
      await runtime.roll(one.serviceId, 7, 2); // not the version that is applied
      await runtime.roll(`${one.serviceId}x`, 1, 1); // not there
      await runtime.apply({ ...one, rolls: 1 });
      expect((await running(one)).rolls).toBe(1);
      expect((await get(rolled)).body).toBe(after);
    });

    test("an older version than the applied one is refused, whenever it arrives", async () => {
      const one = release(answeringApp, { version: 5 });
      await runtime.apply(one);
      const late = runtime.apply({ ...one, version: 4 });
      await expect(late).rejects.toMatchObject({ stage: "apply", code: "release_superseded" });
      expect((await runtime.status(one.serviceId))?.version).toBe(5);
    });

    test("removing a service ends it and forgets its log; removing what is not there is fine", async () => {
      const one = release(answeringApp);
      await runtime.remove(one.serviceId);
      await runtime.apply(one);
      const status = await running(one);
      await runtime.remove(one.serviceId);
      await runtime.remove(one.serviceId);
      expect(await runtime.status(one.serviceId)).toBeUndefined();
      expect((await runtime.list()).map((found) => found.serviceId)).not.toContain(one.serviceId);
      expect(await runtime.logs({ serviceId: one.serviceId, limit: 10 })).toEqual({ lines: [] });
      await answersWith(status, 404);
      await runtime.apply(one);
      await running(one);
    });

    test("the log is paged from the newest line, and told apart by version and stream", async () => {
      const script = `for (let n = 1; n <= 25; n++) console.log("line", n, "of", process.env.ANSWER);
        console.error("a complaint"); setInterval(() => {}, 1000);`;
      const one = release(script, { type: "worker" });
      const { serviceId } = one;
      const written = async (version: number) => {
        for (;;) {
          const { lines } = await runtime.logs({ serviceId, version, limit: 100 });
          if (lines.length === 26) return;
          await delay(20);
        }
      };
      await runtime.apply(one);
      await written(1);
      await runtime.apply({ ...one, version: 2, env: { ...one.env, ANSWER: "two" } });
      await written(2);
      const all: LogLine[] = [];
      let cursor: string | undefined;
      do {
        const page = await runtime.logs({ serviceId, stream: "stdout", version: 1, limit: 10, cursor });
        expect(page.lines.length).toBeLessThanOrEqual(10);
        all.push(...page.lines);
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      const messages = all.map((line) => line.message);
      expect(messages.filter((message) => message !== "a complaint")).toEqual(
        Array.from({ length: 25 }, (_, n) => `line ${25 - n} of one`),
      );
      const apart = stderr() === "stderr";
      expect(messages.includes("a complaint")).toBe(!apart);
      expect(all[0]).toMatchObject({ stream: "stdout", version: 1, replica: expect.any(String) });
      const errors = await runtime.logs({ serviceId, stream: "stderr", version: 2, limit: 10 });
      expect(errors.lines.map((line) => line.message)).toEqual(apart ? ["a complaint"] : []);
      const future = await runtime.logs({ serviceId, since: new Date(Date.now() + 60_000), limit: 10 });
      expect(future.lines).toEqual([]);
      const bad = runtime.logs({ serviceId, limit: 10, cursor: "nonsense" });
      await expect(bad).rejects.toMatchObject({ code: "invalid_cursor" });
    });

    test("a followed log gives each line once, and goes on after the line where it was left", async () => {
      const script = `let n = 0; setInterval(() => console.log("tick", ++n), 20);`;
      const one = release(script, { type: "worker" });
      await runtime.apply(one);
      await running(one);
      const take = async (count: number, query: { tail?: number; after?: string }) => {
        const lines: LogLine[] = [];
        const stop = new AbortController();
        for await (const line of runtime.followLogs({ serviceId: one.serviceId, ...query }, stop.signal)) {
          lines.push(line);
          if (lines.length === count) stop.abort();
        }
        return lines;
      };
      const first = await take(5, { tail: 100 });
      const second = await take(5, { after: first.at(-1)!.cursor });
      const numbers = [...first, ...second].map((line) => Number(line.message.split(" ")[1]));
      expect(numbers).toEqual(Array.from({ length: 10 }, (_, n) => numbers[0]! + n));
    });

    test("an abandoned follower ends, also while nothing is written", async () => {
      const one = release(workingApp, { type: "worker" });
      await runtime.apply(one);
      const stop = new AbortController();
      const following = (async () => {
        for await (const _ of runtime.followLogs({ serviceId: one.serviceId }, stop.signal));
      })();
      stop.abort();
      await following;
    });
  });
}

/** Only for runtimes that cannot run images. */
export function imageRefusalContract(name: string, open: () => Promise<RuntimeHarness>): void {
  test(`runtime ${name} refuses an image with a sentence that a cluster is needed`, async () => {
    const { runtime, close } = await open();
    try {
      const release = releaseOf(imageArtifact("nginx:1"), "");
      const refusal = await runtime.apply(release).catch((error) => error);
      expect(refusal).toBeInstanceOf(RuntimeRefusal);
      expect(refusal).toMatchObject({ stage: "apply", code: "image_needs_cluster" });
      expect(refusal.message).toContain("cluster");
      expect(await runtime.status(release.serviceId)).toBeUndefined();
    } finally {
      await close();
    }
  });
}
