import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
/** The first page. It is for the site alone: in the repository, README.md is the first. */
const HOME = "deploy/docs/site/index.md";
const CONTENTS = "docs/README.md";
/** Linked by the site's navigation. */
const CHANGELOG = "CHANGELOG.md";

const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

/** Returns the Markdown files that the site shows: docs/, what it links to, and the first page. */
export function listPages(): string[] {
  const all = listMarkdown();
  const docs = all.filter((file) => file.startsWith("docs/"));
  const linked = docs.flatMap((file) =>
    [...read(file).matchAll(/\]\(([^()\s#]+)/g)].map(([, to]) => from(file, to!)),
  );
  const shown = new Set([HOME, CHANGELOG, ...docs, ...linked]);
  return all.filter((file) => shown.has(file));
}

/** Returns all Markdown files of the repository, new ones included. */
export function listMarkdown(): string[] {
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  return [...new Set(listed.split("\n").filter(Boolean))];
}

/** Returns where a page is on the site, without a suffix, such as `runbooks/index`. */
export function sitePath(file: string): string {
  if (file === HOME) return "index";
  if (file === CONTENTS) return "contents";
  const path = file
    .replace(/^docs\//, "")
    .replace(/\.md$/, "")
    .replace(/(?<=\/)README$/, "index");
  return path.includes("/") ? path : path.toLowerCase();
}

/**
 * Returns where a link of a page leads on the site: to the page that shows the file, or to the file in the
 * repository; undefined if it leads nowhere, because the address of the repository is not known.
 */
export function siteLink(
  file: string,
  href: string,
  { pages, repository }: { pages: ReadonlySet<string>; repository?: string },
): string | undefined {
  if (/^[a-z]+:|^#|^\//.test(href)) return href;
  const [path = "", anchor] = href.split("#");
  const target = from(file, path);
  const page = [target, join(target, "README.md")].find((one) => pages.has(one));
  if (page) return `/${sitePath(page)}${anchor ? `#${anchor}` : ""}`;
  return repository && `${repository}/blob/HEAD/${target}`;
}

function from(file: string, path: string): string {
  return normalize(join(dirname(file), path)).replace(/\/$/, "");
}

/** Returns the groups of pages that the contents list, each with its pages in their order. */
export function readContents(): { title: string; pages: { title: string; file: string }[] }[] {
  const [, ...groups] = read(CONTENTS).split(/^## /m);
  return groups.map((group) => ({
    title: group.slice(0, group.indexOf("\n")),
    pages: group
      .split("\n")
      .filter((line) => line.startsWith("| ["))
      .map((line) => /\[([^[\]]+)\]\(([^()]+)\)/.exec(line)!)
      .map(([, title, path]) => ({ title: title!, file: from(CONTENTS, path!) })),
  }));
}

/** Returns the anchor that GitHub derives from a heading, so that a link is right there and on the site. */
export function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}
