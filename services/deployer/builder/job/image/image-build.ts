import type { BuildRequest } from "../../port.ts";
import type { JobRequest } from "../job-request.ts";
import type { Buildah } from "./buildah.ts";

/** How the program reports progress. */
export type BuildEvents = Required<Pick<BuildRequest, "onStage" | "onCommit" | "log">>;

/** What the parts of one build of an image share. */
export type ImageBuild = {
  request: JobRequest;
  events: BuildEvents;
  buildah: Buildah;
  /** The context of a generated Dockerfile; the source is its folder `SOURCE_FOLDER`. */
  context: string;
  work: string;
  /** The operator's variables, which every step sees and the image does not keep. */
  own: Record<string, string>;
  /** These and those of a site, which steps see that install no stored dependencies. */
  variables: Record<string, string>;
  signal: AbortSignal;
};

export type ImageName = { tag: string; labels: Record<string, string> };
