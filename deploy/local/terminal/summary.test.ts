import { fstatSync } from "node:fs";
import { expect, test } from "vitest";
import { printsToJournal, summary } from "./summary.ts";

const info = {
  origin: "http://127.0.0.1:4000",
  baseUrl: "http://127.0.0.1:4000/v1",
  ownerEmail: "owner@berth.localhost",
  ownerToken: "berth_pat_secret",
  accountId: "acc_1",
  mailUrl: "http://127.0.0.1:4002/secret-path/",
  pid: 1,
};
const about = {
  data: "/srv/berth",
  listen: "127.0.0.1",
  router: 4001,
  moved: [],
  seconds: 1,
  fresh: false,
  console: true,
  noWalls: undefined,
  noLimits: undefined,
};

test("a journal gets no secret: it says where they are", async () => {
  const printed = await summary(info, { ...about, journal: false });
  expect(printed).toContain(info.ownerToken);
  expect(printed).toContain(info.mailUrl);
  const kept = await summary(info, { ...about, journal: true });
  expect(kept).not.toMatch(/berth_pat_secret|secret-path/);
  expect(kept).toContain("ownerToken in /srv/berth/local.json");
  expect(kept).toContain("mailUrl in /srv/berth/local.json");
});

test("a journal is recognised by the stream itself: terminals of a desktop inherit its variable", () => {
  const { dev, ino } = fstatSync(1);
  expect(printsToJournal({ JOURNAL_STREAM: `${dev}:${ino}` })).toBe(true);
  expect(printsToJournal({ JOURNAL_STREAM: `${dev}:${ino + 1}` })).toBe(false);
  expect(printsToJournal({})).toBe(false);
});

test("a console that is turned off is not announced", async () => {
  expect(await summary(info, { ...about, journal: false })).toContain("Console ");
  expect(await summary(info, { ...about, journal: false, console: false })).not.toContain("Console ");
});

test("whether apps have walls is said, and why not", async () => {
  const walled = await summary(info, { ...about, journal: false });
  expect(walled).toContain("behind walls");
  const open = await summary(info, {
    ...about,
    journal: false,
    noWalls: "bubblewrap (bwrap) is not on the PATH",
  });
  expect(open).toMatch(
    /without walls \(bubblewrap \(bwrap\) is not on the PATH\): whoever can deploy can read all data/,
  );
});

test("whether sizes are enforced is said, and why not", async () => {
  expect(await summary(info, { ...about, journal: false })).toContain("held to the memory and CPU");
  const noLimits = "/sys/fs/cgroup is not of cgroup v2";
  expect(await summary(info, { ...about, journal: false, noLimits })).toContain(
    `Sizes are not enforced (${noLimits})`,
  );
});
