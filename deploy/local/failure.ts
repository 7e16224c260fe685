/** Exit codes of `npm start`; the README of this folder explains each. */
export const exitCodes = {
  internal: 1,
  usage: 2,
  natsMissing: 3,
  folderTaken: 4,
  portInUse: 5,
  folderDamaged: 6,
  wrongKey: 7,
  cannotRun: 8,
  serviceFailed: 9,
} as const;

/** Why the platform did not start, for the user to act on: one plain sentence, and the exit code it stands for. */
export class StartFailure extends Error {
  readonly kind: keyof typeof exitCodes;

  constructor(kind: keyof typeof exitCodes, sentence: string, options?: ErrorOptions) {
    super(sentence, options);
    this.name = "StartFailure";
    this.kind = kind;
  }
}
