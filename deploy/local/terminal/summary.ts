import { relative } from "node:path";

/** The members of `.berth/local.json` (docs/operations.md#local-info); scripts read them. */
export type LocalInfo = {
  origin: string;
  baseUrl: string;
  ownerEmail: string;
  ownerToken: string;
  accountId: string;
  /** Where captured mails are shown; absent when mail is sent by SMTP_URL. */
  mailUrl?: string;
  /** The page of the simulator that takes payments; absent with STRIPE_SECRET_KEY. */
  checkoutUrl?: string;
  pid: number;
};

/** Returns what is printed when everything is ready: addresses, and commands that deploy an example. */
export function summary(info: LocalInfo, about: { data: string; router: number; seconds: number }): string {
  const { data, router } = about;
  const folder = shortPath(data);
  const table = [
    ["API", info.baseUrl],
    ["Reference", `${info.origin}/docs`],
    ["Sign-in", `${info.origin}/signin (your profile, and what applications may do)`],
    ["Apps", `http://<service>-<environment>-<project>.localhost:${router}`],
    ["Owner", `${info.ownerEmail} (password: ownerPassword in ${folder}/secrets.json)`],
    ["Token", info.ownerToken],
    ...(info.mailUrl ? [["Mail", `${info.mailUrl} (what Berth sends; it goes nowhere else)`]] : []),
    ...(info.checkoutUrl
      ? [["Payments", `${info.checkoutUrl} (a simulator of Stripe: no money moves)`]]
      : []),
    ["Data, logs", `${folder}, ${folder}/logs`],
  ].map(([name, value]) => `  ${name?.padEnd(11)} ${value}`);
  return [
    "",
    `Berth is ready (${about.seconds.toFixed(1)} s).`,
    "",
    ...table,
    "",
    "Deploy the example app from a second terminal, in this folder:",
    "",
    ...exampleCommands(info, data),
    "",
    `and open http://web-production-demo.localhost:${router}`,
    "",
    "Ctrl-C stops everything.",
    "",
  ].join("\n");
}

/** Commands of plain curl: make project, environment and service; upload the source; deploy it. */
export function exampleCommands(info: LocalInfo, data: string): string[] {
  const token = `node -p 'require("${data}/local.json").ownerToken'`;
  const id = `node -p 'JSON.parse(require("fs").readFileSync(0)).id'`;
  const post = 'curl -sS -H "$H" --json';
  return [
    `H="Authorization: Bearer $(${token})"; A=${info.baseUrl}/accounts/${info.accountId}
P=$A/projects/$(${post} '{"name":"demo"}' $A/projects | ${id})
E=$P/environments/$(${post} '{"name":"production"}' $P/environments | ${id})
S=$E/services/web; ${post} '{"name":"web","type":"web"}' $E/services; echo`,
    "",
    `F=$(mktemp); tar czf $F -C test/apps/node . && U=$(${post} "{\\"sizeBytes\\":$(wc -c < $F)}" $S/uploads)
curl -sS -T $F -H "Content-Type: application/gzip" "$(echo "$U" | node -p 'JSON.parse(require("fs").readFileSync(0)).uploadUrl')"`,
    "",
    `echo "$U" | node -p 'JSON.stringify({archiveRef: JSON.parse(require("fs").readFileSync(0)).archiveRef})' | ${post} @- $S/deploy-from-archive; echo`,
  ].flatMap((text) => text.split("\n").map((line) => (line === "" ? "" : `  ${line}`)));
}

function shortPath(path: string): string {
  const short = relative(process.cwd(), path);
  return short === "" || short.startsWith("..") ? path : short;
}
