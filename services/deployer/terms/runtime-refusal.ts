export type RuntimeRefusalCode =
  | "image_needs_cluster"
  | "image_not_allowed"
  | "image_not_found"
  | "artifact_missing"
  | "command_missing"
  | "release_superseded"
  | "cluster_refused"
  | "invalid_cursor"
  | "runtime_in_use";

/** A refusal that no retry can cure. `message` is a sentence for users. */
export class RuntimeRefusal extends Error {
  readonly stage = "apply";
  readonly code: RuntimeRefusalCode;
  constructor(code: RuntimeRefusalCode, message: string) {
    super(message);
    this.name = "RuntimeRefusal";
    this.code = code;
  }
}
