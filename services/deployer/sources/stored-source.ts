import type { GitSource } from "./git-source.ts";

/** Where a service is deployed from, as stored; neither for one that only uploads. */
export type StoredSource = {
  image?: string;
  git?: GitSource;
};
