import { createReadStream } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../run.ts";
import { type Platform, type Recipe, suite } from "../settings.ts";
import { type Entry, readTar } from "../tar.ts";

/** What no image needs. The copyright of every package stays. */
const LEFT_OUT =
  /^(?:dev|proc|run|sys|tmp|var\/cache|var\/log|var\/lib\/apt|usr\/share\/(?:man|info|locale|lintian|bug))\/|^usr\/share\/doc\/(?!(?:.*\/)?copyright$)|^var\/lib\/dpkg\/(?:lock|.*-old$|triggers\/Lock$)|^etc\/(?:hostname|resolv\.conf|machine-id)$/;

const STATUS = "var/lib/dpkg/status";
/** Writes dpkg's record of what was extracted, in the folder that mmdebstrap gives a hook. */
const RECORD = `for deb in "$1"/var/cache/apt/archives/*.deb; do dpkg-deb -f "$deb" && printf 'Status: install ok installed\\n\\n' || exit 1; done > "$1/${STATUS}"`;

/** CAP_SETGID and CAP_SETUID. */
const CAPABILITIES: Record<string, number> = { "usr/bin/newgidmap": 6, "usr/bin/newuidmap": 7 };

/**
 * Returns the files of Debian packages for a platform, as the suite has them now. They are only extracted: no program of
 * theirs runs, so every architecture can be made on any other. What their scripts would do is done in `configure`.
 */
export async function debianFiles(recipe: Recipe, { arch }: Platform, work: string) {
  const file = join(work, `${recipe.name}-${arch}.tar`);
  const include = recipe.packages.map((name) => `--include=${name}`);
  const patience = ['Acquire::http::Timeout "30"', 'Acquire::Retries "3"'].map(
    (option) => `--aptopt=${option}`,
  );
  const hooks = ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", `--extract-hook=${RECORD}`];
  const how = ["--quiet", "--variant=extract", "--format=tar", `--architectures=${arch}`];
  await run("mmdebstrap", [...how, ...patience, ...hooks, ...include, suite, file]);
  const entries = (await readTar(createReadStream(file))).filter(({ path }) => !LEFT_OUT.test(path));
  await rm(file);
  const status = entries.find(({ path }) => path === STATUS);
  if (status?.kind !== "file" || status.data.length === 0)
    throw new Error("mmdebstrap extracted no packages");
  return { entries: configure(entries, recipe), status: status.data.toString() };
}

/** Does what the scripts of the packages would do, as far as the image needs it. */
export function configure(entries: Entry[], { user }: Pick<Recipe, "user">): Entry[] {
  const text = (path: string) => {
    const found = entries.find((entry) => entry.path === path);
    if (found?.kind !== "file") throw new Error(`no package has ${path}`);
    return found.data.toString();
  };
  const file = (path: string, content: string, mode = 0o644): Entry => ({
    kind: "file",
    path,
    mode,
    data: Buffer.from(content),
  });
  const authorities = entries
    .filter((entry) => entry.kind === "file" && /^usr\/share\/ca-certificates\/.*\.crt$/.test(entry.path))
    .sort((a, b) => (a.path < b.path ? -1 : 1))
    .map(({ path }) => text(path).trim());
  const home = `home/${user}`;
  const has = (path: string) => entries.some((entry) => entry.path === path);
  return [
    ...entries.map((entry) => withoutSetuid(entry)),
    file(
      "etc/passwd",
      `${text("usr/share/base-passwd/passwd.master")}${user}:x:1000:1000::/${home}:/bin/sh\n`,
    ),
    file("etc/group", `${text("usr/share/base-passwd/group.master")}${user}:x:1000:\n`),
    file("etc/ssl/certs/ca-certificates.crt", `${authorities.join("\n")}\n`),
    { kind: "folder", path: home, mode: 0o755, uid: 1000 },
    { kind: "folder", path: "tmp", mode: 0o1777 },
    { kind: "folder", path: "var/tmp", mode: 0o1777 },
    ...["dev", "proc", "sys", "run"].map((path): Entry => ({ kind: "folder", path, mode: 0o755 })),
    ...(has("usr/bin/mawk")
      ? [{ kind: "link", path: "usr/bin/awk", mode: 0o777, target: "mawk" } satisfies Entry]
      : []),
    ...(has("usr/bin/newuidmap")
      ? [file("etc/subuid", `${user}:100000:65536\n`), file("etc/subgid", `${user}:100000:65536\n`)]
      : []),
  ];
}

/**
 * No program runs as another user. A setuid newuidmap lacks the rights it needs in a pod; file capabilities give it those
 * and no more.
 */
function withoutSetuid(entry: Entry): Entry {
  const mode = entry.kind === "folder" ? entry.mode : entry.mode & 0o777;
  const capability = CAPABILITIES[entry.path];
  if (entry.kind !== "file" || capability === undefined) return { ...entry, mode };
  return { ...entry, mode, capability: fileCapability(capability) };
}

/** Returns an effective and permitted capability as Linux stores it, in version 2. */
function fileCapability(capability: number): Buffer {
  const bytes = Buffer.alloc(20);
  bytes.writeUInt32LE(0x02000001, 0);
  bytes.writeUInt32LE(1 << capability, 4);
  return bytes;
}
