import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";
import { slugOf as slugOfText } from "../../deploy/docs/pages.ts";
import { refusalsOf } from "../../gateway/docs/generate/errors/refusals.ts";
import { allRoutes } from "../../gateway/routing/routes.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Tracked files, and new ones that are not ignored. */
const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  cwd: ROOT,
  encoding: "utf8",
})
  .split("\n")
  .filter((file) => file !== "" && existsSync(join(ROOT, file)))
  .filter((file) => !/^package-lock\.json$|^LICENSE$|\.(binpb|png|ico|woff2|gz)$/.test(file));
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const pages = files.filter((file) => file.endsWith(".md"));
const rules = pages
  .filter((page) => page.startsWith("docs/"))
  .map(read)
  .join("\n");

const anchors = new Map<string, string[]>();

/** Returns the anchors that GitHub derives from the headings of a page. */
function anchorsOf(page: string): string[] {
  let found = anchors.get(page);
  if (!found) {
    const headings = withoutCode(read(page)).matchAll(/^#{1,6} +(.+?) *$/gm);
    found = [...headings].map(([, heading]) => slugOf(heading!));
    anchors.set(page, found);
  }
  return found;
}

function slugOf(heading: string): string {
  return slugOfText(heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"));
}

function withoutCode(markdown: string): string {
  return markdown.replaceAll(/^( *)(```|~~~)[\s\S]*?^\1\2/gm, "");
}

/** Returns why `target`, a `path#anchor` relative to a folder of the repository, does not exist; undefined when it does. */
function problemOf(target: string, folder: string, page: string): string | undefined {
  const [path = "", anchor] = target.split("#");
  const found = path === "" ? page : normalize(join(folder, path));
  if (found.startsWith("..")) return "is outside the repository";
  if (!existsSync(join(ROOT, found))) return "does not exist";
  if (anchor === undefined) return undefined;
  if (!found.endsWith(".md") || statSync(join(ROOT, found)).isDirectory()) return "has no anchors";
  return anchorsOf(found).includes(anchor) ? undefined : "has no such heading";
}

test("the links of every page lead to a file, and to a heading in it", () => {
  const broken = pages.flatMap((page) => {
    const text = withoutCode(read(page)).replaceAll(/`[^`\n]*`/g, "");
    const links = [...text.matchAll(/\[[^\]]*\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
    return links
      .filter((target) => !/^[a-z]+:/.test(target))
      .map((target) => `${page}: ${target} ${problemOf(target, dirname(page), page) ?? "ok"}`)
      .filter((line) => !line.endsWith(" ok"));
  });
  expect(broken).toEqual([]);
});

test("a page names each of its headings once, so that anchors stay", () => {
  const twice = pages.flatMap((page) => {
    const anchors = anchorsOf(page);
    return anchors
      .filter((anchor, at) => anchors.indexOf(anchor) !== at)
      .map((anchor) => `${page}#${anchor}`);
  });
  expect(twice).toEqual([]);
});

test("what code and pages cite is in the repository: a rule of docs/ by its heading, any other page by its path", () => {
  const self = "test/contracts/docs.test.ts";
  const broken = files.flatMap((file) => {
    if (file === self) return [];
    const text = file.endsWith(".md") ? withoutCode(read(file)) : read(file);
    const cited = [...text.matchAll(/(?<![\w./@-])((?:[\w-]+\/|\.{1,2}\/)*[\w-]+\.md)(#[\w-]+)?/g)];
    return cited.flatMap(([target, path, anchor]) => {
      // What a release makes (docs/releasing.md#what-a-release-contains).
      if (path!.endsWith("RELEASE-NOTES.md")) return [];
      const rule = path!.startsWith("docs/") && !file.endsWith(".md") && !text.includes(`"${path}"`);
      if (rule && !anchor) return [`${file}: ${target} names no heading`];
      const fromRoot = problemOf(target, ".", file);
      const beside = problemOf(target, dirname(file), file);
      return fromRoot && beside ? [`${file}: ${target} ${fromRoot}`] : [];
    });
  });
  expect(broken).toEqual([]);
});

test("the files that pages name are in the repository", () => {
  // What the recipes of CONTRIBUTING make.
  const made = /\/notes?[/.]|NNNN-/;
  const missing = pages.flatMap((page) =>
    [...withoutCode(read(page)).matchAll(/`((?:services|gateway|proto|deploy|helm|test)\/[\w./-]+\.\w+)`/g)]
      .map(([, path]) => path!)
      .filter((path) => !made.test(path) && !existsSync(join(ROOT, path)))
      .map((path) => `${page}: ${path}`),
  );
  expect(missing).toEqual([]);
});

/** Folders that several parts have for the same, and that say what they are. */
const UNNAMED = new Set(["migrations", "resilience", "testing", "shared"]);

test("the table of what lives where names each folder, and no other", () => {
  const table = read("docs/architecture.md").split("## Where things live")[1]!;
  const rows = [...table.matchAll(/^\| `([\w/]+)\/` \| (.+) \|$/gm)];
  const wrong = rows.flatMap(([, part, text]) => {
    const named = [...text!.matchAll(/`([\w-]+)`/g)].map(([, name]) => name!);
    const inside = files
      .filter((file) => file.startsWith(`${part}/`))
      .map((file) => file.slice(part!.length + 1));
    const folders = new Set(inside.filter((path) => path.includes("/")).map((path) => path.split("/")[0]!));
    const gone = named.filter((name) => !folders.has(name)).map((name) => `${part}/${name} is not there`);
    const left = [...folders].filter((name) => !named.includes(name) && !UNNAMED.has(name));
    return named.length === 0 ? [] : [...gone, ...left.map((name) => `${part}/${name} is not named`)];
  });
  expect(wrong).toEqual([]);
  expect(rows.length).toBeGreaterThan(10);
});

test("every code and reason that the API documents is explained in docs/", () => {
  const said = allRoutes().flatMap(refusalsOf);
  const words = new Set(said.flatMap(({ code, reasons }) => [code, ...reasons]));
  expect(words.size).toBeGreaterThan(50);
  expect([...words].filter((word) => !new RegExp(`[\`\\s]${word}\``).test(rules))).toEqual([]);
});

test("every event of the protos is in the catalogue", () => {
  const protos = files.filter((file) => /^proto\/berth\/\w+\/v1\/events\.proto$/.test(file));
  const events = protos.flatMap((file) =>
    [...read(file).matchAll(/^message (\w+)/gm)].map(([, name]) => name!),
  );
  expect(events.length).toBeGreaterThan(20);
  const catalogue = read("docs/events.md");
  expect(events.filter((name) => !catalogue.includes(`\`${name}\``))).toEqual([]);
});

test("the catalogue names who sends and who handles each event", () => {
  const services = files.flatMap((file) => /^services\/(\w+)\/main\.ts$/.exec(file)?.slice(1) ?? []);
  const processes = ["gateway", ...services];
  const code = new Map(
    processes.map((name) => {
      const folder = name === "gateway" ? "gateway/" : `services/${name}/`;
      const own = files.filter((file) => file.startsWith(folder) && file.endsWith(".ts"));
      return [
        name,
        own
          .filter((file) => !/\.test\.ts$|testing/.test(file))
          .map(read)
          .join("\n"),
      ];
    }),
  );
  const rows = [...read("docs/events.md").matchAll(/^\| (\w+) \| ((?:`\w+` ?)+)\| ?(.*?) ?\|$/gm)];
  expect(rows.length).toBeGreaterThan(15);
  const wrong = rows.flatMap(([, sender, events, consumers]) => {
    // What they do with it stands in parentheses, with links.
    const named = consumers!.replaceAll(/\]\([^)]*\)/g, "").replaceAll(/\([^)]*\)/g, "");
    const said = processes.filter((name) => name === sender || new RegExp(`\\b${name}\\b`).test(named));
    return [...events!.matchAll(/\w+/g)].flatMap(([event]) => {
      const used = processes.filter((name) => new RegExp(`\\b${event}Schema\\b`).test(code.get(name)!));
      return used.join() === said.join()
        ? []
        : [`${event}: ${said} are named, ${used} have it in their code`];
    });
  });
  expect(wrong).toEqual([]);
});

test("rules are cited: the check above finds something to check", () => {
  const citing = files.filter((file) => /\.(ts|proto)$/.test(file) && /docs\/[a-z]+\.md#/.test(read(file)));
  expect(citing.length).toBeGreaterThan(20);
});

type Locked = { engines?: { node?: string }; optional?: boolean };

test("npm ci warns of no package on the oldest Node of the README: what asks for a newer one runs on the one it brings", () => {
  const oldest = Number(/Node (\d+) or newer/.exec(readFileSync(join(ROOT, "README.md"), "utf8"))![1]);
  const takes = (range: string) => {
    const [, operator = "", major] = /^\s*(>=|>|\^|~|)\s*v?(\d+)/.exec(range) ?? [];
    if (major === undefined) return range.trim() === "*";
    return operator.startsWith(">") ? Number(major) <= oldest : Number(major) === oldest;
  };
  const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8"));
  const warned = Object.entries(packages as Record<string, Locked>)
    .filter(([, { engines, optional }]) => !optional && !(engines?.node ?? "*").split("||").some(takes))
    .map(([path]) => path);
  // npm keeps it out: take the member "engines" of these out of package-lock.json.
  expect(warned).toEqual([]);
});
