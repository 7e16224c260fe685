import { BlockList, isIP } from "node:net";
import { findAppRepository } from "../../../images/app-repositories.ts";
import { type ImageReference, parseImageReference } from "../../../images/image-reference.ts";
import { REPOSITORIES, type RegistryTarget } from "../job-request.ts";

/** Returns a function that says whether an image is in a repository of builds, under any name of its registry. */
export function builtImages({ push, pull }: Pick<RegistryTarget, "push" | "pull">) {
  const own = new Set(
    [push, pull].flatMap((path) => REPOSITORIES.map((name) => parseRepository(`${path}/${name}`))),
  );
  return (image: ImageReference): boolean => {
    const { accountId } = findAppRepository(image.repository) ?? {};
    const name = canonicalName(image);
    return own.has(accountId === undefined ? name : name.slice(0, -`/${accountId}`.length));
  };
}

function parseRepository(text: string): string {
  const found = parseImageReference(text);
  if ("problem" in found) throw new Error(`${text} is not a repository of images: ${found.problem}`);
  return canonicalName(found);
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");

/**
 * Returns one name for all references by which a node reaches the same repository: addresses have several forms, plain
 * HTTP has a default port, and a machine has many loopback addresses.
 */
function canonicalName({ registry, repository }: ImageReference): string {
  const url = URL.parse(`http://${registry}`);
  if (!url) return `${registry}/${repository}`;
  const address = url.hostname.replace(/^\[|\]$/g, "");
  const family = isIP(address);
  const local = family !== 0 && loopback.check(address, family === 6 ? "ipv6" : "ipv4");
  return `${local ? "localhost" : address}:${url.port}/${repository}`;
}
