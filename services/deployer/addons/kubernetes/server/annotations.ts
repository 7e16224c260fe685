import { annotation } from "../../../kube/names.ts";

/** The `Addon.generation` that was applied last. */
export const GENERATION = annotation("generation");
export const PASSWORD = annotation("password-mark");
export const SIZE = annotation("size");
/** The image that Berth moved a server to last: one that has another since, by hand, is not moved to it again. */
export const MOVED = annotation("moved-to");
/** How large, in GiB, the volumes of a server were asked to be. */
export const STORAGE = annotation("storage-gib");
/** Which backup a pod was started to restore last. */
export const RESTORED = annotation("restored");
