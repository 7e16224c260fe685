import { expect, test } from "vitest";
import type { Entry } from "../tar.ts";
import { configure } from "./debian.ts";

const file = (path: string, text: string, mode = 0o644): Entry => ({
  kind: "file",
  path,
  mode,
  data: Buffer.from(text),
});
const base = [
  file("usr/share/base-passwd/passwd.master", "root:*:0:0:root:/root:/bin/bash\n"),
  file("usr/share/base-passwd/group.master", "root:*:0:\n"),
  file("usr/share/ca-certificates/mozilla/B.crt", "second\n"),
  file("usr/share/ca-certificates/mozilla/A.crt", "first"),
];

function configured(entries: Entry[]) {
  const all = new Map(configure(entries, { user: "builder" }).map((entry) => [entry.path, entry]));
  const text = (path: string) => {
    const entry = all.get(path);
    return entry?.kind === "file" ? entry.data.toString() : undefined;
  };
  return { all, text };
}

test("what scripts of Debian's packages would do is done: users, certificates, awk", () => {
  const { all, text } = configured([...base, file("usr/bin/mawk", "", 0o755)]);
  expect(text("etc/passwd")).toBe(
    "root:*:0:0:root:/root:/bin/bash\nbuilder:x:1000:1000::/home/builder:/bin/sh\n",
  );
  expect(text("etc/group")).toBe("root:*:0:\nbuilder:x:1000:\n");
  expect(text("etc/ssl/certs/ca-certificates.crt")).toBe("first\nsecond\n");
  expect(all.get("home/builder")).toMatchObject({ kind: "folder", uid: 1000 });
  expect(all.get("tmp")).toMatchObject({ mode: 0o1777 });
  expect(all.get("usr/bin/awk")).toMatchObject({ kind: "link", target: "mawk" });
  expect(all.has("etc/subuid")).toBe(false);
});

test("no program is setuid or setgid, and those that map user ids have the one capability that each needs", () => {
  const setuid = ["su", "newuidmap", "newgidmap"].map((name) => file(`usr/bin/${name}`, "", 0o6755));
  const { all, text } = configured([...base, ...setuid]);
  expect([...all.values()].filter((entry) => entry.kind === "file" && entry.mode > 0o777)).toEqual([]);
  const capability = (name: string) => (all.get(`usr/bin/${name}`) as { capability?: Buffer }).capability;
  expect(capability("su")).toBeUndefined();
  // As `setcap cap_setuid+ep` and `setcap cap_setgid+ep` store them.
  expect(capability("newuidmap")!.toString("hex")).toBe("0100000280000000000000000000000000000000");
  expect(capability("newgidmap")!.toString("hex")).toBe("0100000240000000000000000000000000000000");
  expect(text("etc/subuid")).toBe("builder:100000:65536\n");
});

test("a Debian without what an image needs is an error", () => {
  expect(() => configured(base.slice(1))).toThrow("no package has usr/share/base-passwd/passwd.master");
});
