/** Reasons of a waiting container whose image cannot be pulled. */
export const PULL_FAILURES = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];

/** Reasons of a waiting container that the node cannot create or start. */
export const START_FAILURES = ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"];
