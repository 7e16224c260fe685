import { expect, test } from "vitest";
import { html } from "./html.ts";

test("every value is escaped, in text and in attributes; only markup is not", () => {
  const hostile = `</p><script>"'&`;
  expect(html`<p title="${hostile}">${hostile}</p>`.text).toBe(
    '<p title="&lt;/p&gt;&lt;script&gt;&quot;&#39;&amp;">&lt;/p&gt;&lt;script&gt;&quot;&#39;&amp;</p>',
  );
  expect(html`<ul>${["<b>", 2].map((one) => html`<li>${one}</li>`)}</ul>`.text).toBe(
    "<ul><li>&lt;b&gt;</li><li>2</li></ul>",
  );
  // What looks like markup, such as parsed JSON, is text.
  expect(html`${String({ text: "<b>" })}`.text).toBe("[object Object]");
  expect(html`${undefined}${false}${0}${""}`.text).toBe("0");
});

test("characters that reorder or hide text are left out", () => {
  expect(html`${"a\u202Eb\u2066c\u200Bd\u0000e\u{E0041}f\u00ADg"}`.text).toBe("abcdefg");
  expect(html`${"שלום 日本 é 👩"}`.text).toBe("שלום 日本 é 👩");
});
