import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { listMarkdown, listPages, readContents, siteLink, sitePath, slugOf } from "../../pages.ts";

// deploy/docs/main.ts sets them.
const { DOCS_ROOT: root, DOCS_BASE: base, DOCS_REPOSITORY: repository } = process.env;
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const pages = new Set(listPages());

/** Links of the repository become links of the site; those that lead nowhere there become text. */
function links(md) {
  md.core.ruler.push("links-of-the-repository", ({ tokens, env }) => {
    // Titles and the index of the search need no links, and come without a page.
    if (!env.realPath) return;
    const file = relative(root, env.realPath);
    let tag = "a";
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      if (token.type === "link_open") {
        const href = siteLink(file, decodeURI(token.attrGet("href")), { pages, repository });
        tag = href ? "a" : "span";
        token.attrs = href ? [["href", href]] : null;
      }
      if (token.type.startsWith("link_")) token.tag = tag;
    }
  });
}

/** Diagrams are drawn in the browser, by a component. */
function diagrams(md) {
  const { fence } = md.renderer.rules;
  md.renderer.rules.fence = (tokens, at, ...rest) =>
    tokens[at].info.trim() === "mermaid"
      ? `<MermaidDiagram text="${encodeURIComponent(tokens[at].content)}" />`
      : fence(tokens, at, ...rest);
}

export default {
  title: "Berth",
  description: "A self-hosted platform: deploy, configure and run apps on your own machines",
  lang: "en",
  base,
  head: [["link", { rel: "icon", type: "image/svg+xml", href: `${base}favicon.svg` }]],
  srcDir: root,
  srcExclude: listMarkdown().filter((file) => !pages.has(file)),
  rewrites: Object.fromEntries([...pages].map((file) => [file, `${sitePath(file)}.md`])),
  cacheDir: join(root, ".cache/docs"),
  cleanUrls: false,
  // What is beside the pages: the reference is not one of them.
  ignoreDeadLinks: [/^\/api\//],
  markdown: {
    html: false,
    anchor: { slugify: slugOf },
    config: (md) => [links, diagrams].map((add) => add(md)),
  },
  vite: { build: { chunkSizeWarningLimit: 2_000 }, publicDir: false },
  themeConfig: {
    search: { provider: "local" },
    outline: "deep",
    nav: [
      { text: "Contents", link: "/contents" },
      { text: "API reference", link: "/api/index.html", target: "_self" },
      { text: version, link: "/changelog" },
    ],
    sidebar: readContents().map(({ title, pages }) => ({
      text: title,
      items: pages.map(({ title, file }) => ({ text: title, link: `/${sitePath(file)}` })),
    })),
    ...(repository && { socialLinks: [{ icon: "git", link: repository }] }),
  },
};
