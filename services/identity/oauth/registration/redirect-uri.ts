import { isHostName } from "./host-names.ts";

/** The redirect URIs that an operator allows clients to register. */
export type RedirectRules = {
  /** Whether applications may use a scheme of their own, such as `cursor:`. */
  customSchemes: boolean;
  /** The hosts allowed in https URIs, `*.` for all subdomains of one; undefined for any, empty for none. */
  hosts: string[] | undefined;
};

/** The kind of a redirect URI that may be registered, or what is wrong with it, as the predicate of a sentence. */
export type RedirectUri = { kind: "loopback" | "web" | "custom" } | { problem: string };

const MAX_LENGTH = 1024;
const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** Schemes that run code, display or fetch something, or belong to another program: a store, a browser, mail, a phone. */
const DENIED = new Set([
  ...["about", "blob", "content", "data", "file", "filesystem", "jar", "javascript", "livescript", "mocha"],
  ...["resource", "shell", "vbscript", "view", "view-source", "wyciwyg", "help", "hcp", "res", "cid", "mid"],
  ...["ftp", "ftps", "gopher", "httpu", "imap", "ldap", "ldaps", "nfs", "afp", "cifs", "smb", "dav", "davs"],
  ...[
    "pop",
    "rtsp",
    "rtmp",
    "sftp",
    "ssh",
    "telnet",
    "tn3270",
    "vnc",
    "rdp",
    "git",
    "svn",
    "rsync",
    "finger",
  ],
  ...["news", "nntp", "snews", "irc", "ircs", "xmpp", "jabber", "magnet", "ed2k", "bitcoin", "ethereum"],
  ...["ws", "wss", "mailto", "sms", "smsto", "mms", "mmsto", "tel", "callto", "facetime", "facetime-audio"],
  ...["sip", "sips", "skype", "whatsapp", "tg", "tag", "urn", "intent", "feed", "feeds", "podcast", "pcast"],
  ...["market", "amzn", "samsungapps", "appmarket", "mimarket", "macappstore", "macappstores", "steam"],
  ...["geo", "maps", "calshow", "webcal", "webcals", "music", "videos", "photos", "prefs", "app-prefs"],
  ...["app-settings", "search-ms", "shortcuts", "read", "opera", "brave", "vivaldi", "safari", "firefox"],
]);
const DENIED_PREFIXES = [
  ...["android", "apple-", "x-apple", "chrome", "edge", "googlechrome", "itms", "microsoft-", "moz-", "ms-"],
  ...["http+", "https+", "git+", "svn+", "web+", "ext+", "safari-", "view-", "x-web-search", "x-man-page"],
];

/**
 * Classifies a redirect URI as loopback, web or custom, or says why it cannot be registered
 * (docs/oauth.md#redirect-uris). In an accepted URI every parser sees the same host.
 */
export function readRedirectUri(uri: unknown, rules: RedirectRules): RedirectUri {
  if (typeof uri !== "string" || uri === "") return { problem: "has to be a text that is not empty" };
  if (uri.length > MAX_LENGTH) return { problem: `has more than ${MAX_LENGTH} characters` };
  if (uri.includes("#")) return { problem: "must not have a fragment" };
  if (uri.includes("*")) return { problem: "must not have a wildcard" };
  if (!/^[\w.~:/?[\]@!$&'()+,;=%-]+$/.test(uri))
    return { problem: "has a character that RFC 3986 does not allow; encode it, and hosts as xn--" };
  if (!URL.canParse(uri)) return { problem: "is not an absolute URI" };
  const url = new URL(uri);
  const scheme = url.protocol.slice(0, -1);
  if (scheme === "http" || scheme === "https") return readWeb(uri, url, scheme, rules);
  return readCustom(uri, url, scheme, rules);
}

function readWeb(uri: string, url: URL, scheme: "http" | "https", { hosts }: RedirectRules): RedirectUri {
  const authority = uri
    .slice(scheme.length + "://".length)
    .split(/[/?]/)[0]!
    .toLowerCase();
  if (authority.includes("@")) return { problem: "must not have a user or password" };
  const { host, hostname } = url;
  // Not `https:host`, `127.1` or `exa%6dple.com`, which parsers interpret differently.
  if (authority !== host && authority !== `${hostname}:${scheme === "http" ? 80 : 443}`)
    return { problem: `has to begin with ${scheme}:// and the host in its ordinary form` };
  if (scheme === "http") {
    if (LOOPBACK.includes(hostname)) return { kind: "loopback" };
    return { problem: `may use http only with ${LOOPBACK.join(", ")}; use https` };
  }
  if (!isHostName(hostname)) return { problem: "has to name a host such as app.example.com after https" };
  if (hosts && !hosts.some((allowed) => covers(allowed, hostname)))
    return { problem: "names a host that this installation does not allow" };
  return { kind: "web" };
}

function readCustom(uri: string, url: URL, scheme: string, { customSchemes }: RedirectRules): RedirectUri {
  if (!/^[a-z][a-z0-9+.-]{2,39}:./.test(uri))
    return { problem: "has to begin with a scheme of 3 to 40 lower-case letters, digits, +, . and -" };
  if (DENIED.has(scheme) || DENIED_PREFIXES.some((prefix) => scheme.startsWith(prefix)))
    return { problem: "has a scheme that is not an application's own" };
  if (!customSchemes) return { problem: "has to begin with https:// or http:// on this installation" };
  if (url.username !== "" || url.password !== "" || /^[^:]+:\/\/[^/?]*@/.test(uri))
    return { problem: "must not have a user or password" };
  return { kind: "custom" };
}

function covers(allowed: string, hostname: string): boolean {
  return allowed.startsWith("*.") ? hostname.endsWith(allowed.slice(1)) : hostname === allowed;
}
