/** Returns the artifact of an image deployment. */
export function imageArtifact(ref: string): string {
  return `image:${ref}`;
}

/** Returns the image ref of an artifact; undefined when it is no image. */
export function imageRef(artifact: string): string | undefined {
  return artifact.startsWith("image:") ? artifact.slice("image:".length) : undefined;
}
