import { html } from "../../../services/kit/html.ts";
import { toDocument } from "./layout.ts";
import { PAGE_HEADERS } from "./serve-pages.ts";

/** Returns a page that tells a person why there is no other: its type, its bytes, and its headers in turn. */
export function errorPage(title: string, sentence: string): { type: string; body: Buffer; more: string[] } {
  const page = { title, content: html`<p>${sentence}</p>` };
  const { "content-type": type, ...protecting } = PAGE_HEADERS;
  return { type, body: Buffer.from(toDocument(page, "").text), more: Object.entries(protecting).flat() };
}
