// biome-ignore lint/performance/noBarrelFile: this is what the package exports.
export { Berth } from "./berth.ts";
export type { CallOptions, ClientOptions } from "./caller.ts";
export type { Outcome, WaitOptions } from "./deployments.ts";
export {
  type Code,
  type Detail,
  isRefusal,
  type Operation,
  Refusal,
  type RefusalOf,
  type RefusalWith,
  Unreachable,
} from "./errors.ts";
export type * from "./generated/types.ts";
export { Pages } from "./pages.ts";
export type { AccountAddress, EnvironmentAddress, ProjectAddress, ServiceAddress } from "./path.ts";
export type { EnvironmentSet, ResolvedSet, SetOptions } from "./sets.ts";
export type { StreamEvent, StreamOptions } from "./streams.ts";
export type { Archive, UploadOptions } from "./upload.ts";
