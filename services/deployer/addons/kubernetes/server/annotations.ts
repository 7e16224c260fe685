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
/** Which secret both servers of an addon with a standby reach each other with. */
export const REPLICATION = annotation("replication-mark");
/** Which one of them is the primary; of a pod, when it was created. */
export const PRIMARY = annotation("primary");
/** The uid of the pod that was the primary before, and is to be replaced by one that is a standby. */
export const REPLACED = annotation("replaced");
