// Shows the document: a list of its operations with a search, and a view of each.
import { api, base } from "/docs/document.js";
import { el } from "/docs/element.js";
import { operationView } from "/docs/operation-view.js";
import { paragraphs } from "/docs/schema-view.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

// An operation with several paths is shown once; the ids of its further paths end with At….
const operations = new Map();
for (const [path, item] of Object.entries(api.paths))
  for (const method of METHODS.filter((name) => item[name])) {
    const operation = item[method];
    // What is only documented as not offered is left out.
    if (Object.keys(operation.responses).every((status) => Number(status) >= 300)) continue;
    const id = operation.operationId.replace(/At[A-Z]\w+$/, "");
    const same = operations.get(id);
    if (same) same.paths.push(path);
    else operations.set(id, { paths: [path], method, operation });
  }

const shown = [];
const nav = document.getElementById("nav");
for (const { name, description } of api.tags) {
  const own = [...operations.values()].filter(({ operation }) => operation.tags.includes(name));
  const group = el("section", { class: "group" }, el("h2", {}, name), paragraphs(description));
  const list = el("section", {}, el("h2", {}, name));
  for (const one of own) {
    const { paths, method, operation } = one;
    const view = operationView(one);
    const link = el(
      "a",
      { href: `#${operation.operationId}`, title: `${method.toUpperCase()} ${paths[0]}` },
      el("span", { class: `method ${method}` }, method === "delete" ? "DEL" : method.toUpperCase()),
      el("span", {}, operation.summary),
    );
    group.append(view);
    list.append(link);
    shown.push({ view, link, group, list, words: `${method} ${view.textContent}`.toLowerCase() });
  }
  document.getElementById("operations").append(group);
  nav.append(list);
}
const none = el("p", { class: "none" }, "No matches.");
nav.append(none);

document
  .getElementById("intro")
  .replaceChildren(
    el("h1", {}, `${api.info.title} API`),
    ...paragraphs(api.info.description),
    el(
      "p",
      {},
      "Base URL: ",
      el("code", {}, base),
      " · ",
      el("a", { href: "/openapi.json" }, "openapi.json"),
    ),
  );

const search = document.getElementById("search");
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of shown) {
    const matches = words.every((word) => item.words.includes(word));
    item.view.hidden = item.link.hidden = !matches;
  }
  for (const { group, list } of shown) {
    const empty = shown.every((item) => item.group !== group || item.link.hidden);
    group.hidden = list.hidden = empty;
  }
  none.hidden = shown.some((item) => !item.link.hidden);
}
search.addEventListener("input", filter);
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  }
});
filter();

const byId = new Map(shown.map(({ view, link }) => [view.id, link]));
let here;
const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      here?.classList.remove("here");
      here = byId.get(target.id);
      here.classList.add("here");
      here.scrollIntoView({ block: "nearest" });
    }
  },
  { rootMargin: "-10% 0px -80% 0px" },
);
for (const { view } of shown) observer.observe(view);
if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
