import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { canMount, emptyDisk, fillDisk } from "../../services/kit/testing/small-disk.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type Launched, launch } from "../support/launched.ts";

const MIB = 1024 ** 2;
const BYTES = 400 * MIB;
/** For what is measured twice a minute. */
const PATIENCE = 90_000;

const withMount = test.skipIf(!canMount("The story of a filling disk is"));

let platform: Launched;
afterEach(async () => {
  await platform?.stop();
});

type Notification = { kind: string; title: string; body: string };

withMount(
  "whoever runs Berth on one machine hears in the feed and by mail that its disk fills up, once, and that it is well again",
  async () => {
    const env = { DISK_WARN_PERCENT: "85", DISK_URGENT_PERCENT: "0" };
    platform = await launch({ disk: { at: "", bytes: BYTES }, env });
    const disk = join(`/proc/${platform.child.pid}/root`, platform.data);
    const feed = async () => {
      const { body } = await platform.requestUntilAnswered("GET", "/notifications?limit=100");
      return (body as { data: Notification[] }).data.filter(({ kind }) => kind.startsWith("node."));
    };
    const subjects = async () => {
      const answer = await fetch(`${platform.mailUrl}messages.json`);
      const { data: mails } = (await answer.json()) as { data: { subject: string }[] };
      return mails.map(({ subject }) => subject).filter((subject) => subject.startsWith("The disk of"));
    };
    const announced = (count: number) =>
      eventually(
        "it is announced",
        async () => ((await feed()).length >= count ? feed() : undefined),
        PATIENCE,
      );
    const mailed = (count: number) =>
      eventually("it is mailed", async () => ((await subjects()).length >= count ? subjects() : undefined));

    fillDisk(disk, BYTES * 0.12);
    const [filling] = await announced(1);
    expect(filling).toMatchObject({
      kind: "node.disk_filling",
      title: expect.stringMatching(/^The disk of .+ is \d\d % full$/),
      body: expect.stringMatching(/ MiB of 400 MiB are left\. Most is used by .*\/postgres.* du -xh -d 2 /),
    });
    expect(await mailed(1)).toEqual([filling!.title]);
    // The next process measures at its start.
    await platform.kill("services/notifications");
    emptyDisk(disk);
    const all = await announced(2);
    expect(all.map(({ kind }) => kind)).toEqual(["node.recovered", "node.disk_filling"]);
    expect((await mailed(2)).toSorted()).toEqual(all.map(({ title }) => title).toSorted());
  },
  4 * PATIENCE,
);
