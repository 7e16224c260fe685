import { type LookupAddress, lookup } from "node:dns";
import { request } from "node:https";
import { BlockList, isIP, type LookupFunction } from "node:net";

/** What was read of a URL: its status, at most `maxBytes` of its body, and for how long it may be kept. */
export type Fetched = { status: number; body: Buffer; maxAgeSeconds: number | undefined };
export type FetchDocument = (url: URL) => Promise<Fetched>;

const TIMEOUT_MS = 2_500;

/** Networks that are somebody's own, or no host's: RFC 6890 and its registry. */
const special = blockList(
  ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"],
  ...["192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"],
  ...["198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"],
  ...["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"],
);
const internet6 = blockList("2000::/3");

function blockList(...networks: string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address, prefix] = network.split("/");
    list.addSubnet(address!, Number(prefix), address!.includes(":") ? "ipv6" : "ipv4");
  }
  return list;
}

/** Whether an address is one of the public internet, and of no network that is somebody's own. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !special.check(address, "ipv4");
  return family === 6 && internet6.check(address, "ipv6") && !special.check(address, "ipv6");
}

/**
 * Returns a function that reads a document over https from hosts of the public internet alone: it never connects to
 * another address, whatever a name resolves to, follows no redirect, and gives up after 2.5 s or `maxBytes`. It rejects
 * when the host cannot be reached. `isAllowed` and `ca` are for tests.
 */
export function documentFetcher(options: {
  maxBytes: number;
  isAllowed?: (address: string) => boolean;
  resolve?: typeof lookup;
  ca?: string;
}): FetchDocument {
  const { maxBytes, isAllowed = isPublicAddress, resolve = lookup, ca } = options;

  /** As `dns.lookup`, without the addresses that are not allowed: it is asked for each connection. */
  const allowedOnly: LookupFunction = (hostname, asked, done) => {
    resolve(hostname, { ...asked, all: true }, (error, addresses: LookupAddress[]) => {
      if (error) return done(error, []);
      const allowed = addresses.filter(({ address }) => isAllowed(address));
      const [first] = allowed;
      if (!first) return done(new Error("The name leads to no public address"), []);
      return asked.all ? done(null, allowed) : done(null, first.address, first.family);
    });
  };

  return (url) =>
    new Promise((done, failed) => {
      if (isIP(url.hostname.replace(/[[\]]/g, ""))) throw new Error("An address is no name");
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const headers = { accept: "application/json", "user-agent": "berth" };
      const sent = request(url, { headers, signal, lookup: allowedOnly, agent: false, ca }, (response) => {
        const chunks: Buffer[] = [];
        let length = 0;
        response.on("data", (chunk: Buffer) => {
          length += chunk.length;
          chunks.push(chunk);
          if (length > maxBytes) response.destroy(new DocumentTooLarge());
        });
        response.on("error", failed);
        response.on("end", () => {
          const maxAgeSeconds = maxAgeOf(response.headers["cache-control"]);
          done({ status: response.statusCode!, body: Buffer.concat(chunks), maxAgeSeconds });
        });
      });
      sent.on("error", failed).end();
    });
}

/** The document is there, but longer than allowed. */
export class DocumentTooLarge extends Error {}

function maxAgeOf(cacheControl: string | undefined): number | undefined {
  const seconds = /(?:^|[ ,])max-age=(\d{1,9})/i.exec(cacheControl ?? "")?.[1];
  return seconds === undefined ? undefined : Number(seconds);
}
