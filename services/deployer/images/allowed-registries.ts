import type { Field } from "../../kit/process/config.ts";
import { type ImageReference, parseImageReference } from "./image-reference.ts";

/** Where the images of this installation may come from: registries, or paths in them. Any, if there are none. */
export type AllowedRegistries = string[];

/** A list such as `docker.io/library,registry.example.com:5000`. */
export const allowedRegistries: Field<AllowedRegistries> = {
  name: "ALLOWED_REGISTRIES",
  parse(given) {
    if (given === undefined) return [];
    return given.split(",").map((entry) => {
      const found = parseEntry(entry.trim());
      if (found === undefined)
        throw new Error("must be registries such as docker.io/library,registry.example.com:5000");
      return found;
    });
  },
};

/** Returns whether an image is in an allowed registry, whatever the spelling of its name. */
export function isInAllowed(allowed: AllowedRegistries, { registry, repository }: ImageReference): boolean {
  return (
    allowed.length === 0 || allowed.some((entry) => `${registry}/${repository}/`.startsWith(`${entry}/`))
  );
}

/** Returns an entry in the form that references have when parsed; undefined when it does not begin with a host. */
function parseEntry(entry: string): string | undefined {
  const below = "/some/image";
  const found = parseImageReference(`${entry}${below}`);
  const isHost = /^localhost$|[.:]/.test(entry.split("/")[0]!);
  return "problem" in found || !isHost
    ? undefined
    : `${found.registry}/${found.repository}`.slice(0, -below.length);
}
