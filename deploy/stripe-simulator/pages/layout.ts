import { type Html, html } from "../../../services/kit/html.ts";
import type { SimpleResponse } from "../http/routes.ts";

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: #1a1a1a; background: #f6f6f4 }
main { max-width: 34rem; margin: 2rem auto; padding: 0 1rem }
.banner { background: #5b2c00; color: #fff; padding: .75rem 1rem; text-align: center; font-weight: 600; margin: 0 }
table { width: 100%; border-collapse: collapse } td, th { padding: .4rem 0; text-align: left; border-bottom: 1px solid #ccc }
td:last-child, th:last-child { text-align: right } caption { text-align: left } label { display: block; margin-top: 1rem; font-weight: 600 }
input { font: inherit; width: 100%; box-sizing: border-box; padding: .5rem; border: 1px solid #767676; border-radius: 4px }
button { font: inherit; margin-top: 1rem; padding: .6rem 1.2rem; border: 1px solid #1a1a1a; border-radius: 4px; cursor: pointer; background: #fff; color: #1a1a1a }
button.main { background: #1a1a1a; color: #fff } .error { color: #9b0000; font-weight: 600 } small { color: #555 }
`;

const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'";

/** Returns a page with the banner that says it is a simulator. */
export function page(title: string, content: Html, status = 200): SimpleResponse {
  const document = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
`;
  const body = html`</head>
<body><header class="banner">This is a simulator: no money moves</header>
<main><h1>${title}</h1>${content}</main></body>
</html>
`;
  return {
    status,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": POLICY,
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
    },
    body: `${document.text}<style>${STYLE}</style>\n${body.text}`,
  };
}

/** Returns a redirect. */
export function redirect(location: string): SimpleResponse {
  return { status: 303, headers: { location, "cache-control": "no-store" } };
}

/** Returns cents as a dollar amount. */
export function toDollars(cents: number): string {
  const sign = cents < 0 ? "-" : "";
  return `${sign}$${(Math.abs(cents) / 100).toFixed(2)}`;
}
